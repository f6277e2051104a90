// Package journal is the log of an unfinished copy: what has been done at one
// destination, so that the same command continues after it was killed or the
// power was cut.
//
// # Format
//
// One line of text for each record, only ever appended:
//
//	checksum SP rest LF
//
// The checksum is the CRC-32C, as eight hexadecimal digits, of an id followed by
// rest. In the header the id is left out; a "run" line takes the header's id; all
// other lines take that of the last run line above, or the header's where there
// is none. The rest is a letter and its fields, with one space between them; the
// header begins with a word:
//
//		sealift-journal 1 ID BEGUN OPTIONS SOURCE
//		f SIZE MTIME CTIME DIGESTS PATH
//		p OFFSET SIZE MTIME CTIME TEMP STATES PATH
//		d PATH
//		c UPTO TIME
//		r ID
//
//	  - header, the first line and no other: the id of the log; when it was begun;
//	    the options it is valid for, one word of printable ASCII, which means
//	    nothing here; the source.
//	  - file: a file stands at the destination, copied or found equal. Size and
//	    times are the source's; the digests are in the order of the options.
//	  - partial: the first OFFSET bytes of a file are on the device, in the
//	    temporary TEMP in the file's directory. STATES are those of the running
//	    digests at OFFSET.
//	  - written: the same of what was written and need not be on the device.
//	  - done: the partial and written lines of this path above hold no more; the
//	    temporary is gone or has the file's name.
//	  - checkpoint: at TIME everything that file lines beginning before byte UPTO
//	    of the log say was on the device.
//	  - run: another run continues here. File lines above that no checkpoint above
//	    covers will not be covered by one below. The id is that of the checksums from here on.
//
// An id is 16 hexadecimal digits. Sizes, OFFSET and UPTO are decimal, in bytes. A
// time is SECONDS.NANOSECONDS since 1970, with nine digits of nanoseconds, which
// count forward even if the seconds are negative. DIGESTS is "-" if there are
// none, else hexadecimal numbers with commas between them. STATES is "." if there
// are none, else a list with commas between of base64 (RFC 4648, section 5, no
// padding), or "-" for a state that cannot be saved. A path goes to the end of
// its line; backslash, LF, CR and NUL in it are written \\, \n, \r and \0, every
// other byte as it is. Hexadecimal digits are lower-case. So each record has one
// spelling only, and
//
//	grep ' f .* some/file$'
//
// finds what is known of a file.
//
// # What is trusted
//
// The destination may be anybody's disk. Lines are taken from the first on up to
// one that is torn, damaged, or says what no Writer says; from there on nothing
// is. As well as a wrong checksum that is: another spelling, a number out of its
// range, an offset of 0 or beyond the size, a checkpoint of lines that come after
// it or of fewer than the one before, a path that is empty, absolute, longer than
// MaxPath, or has an empty, "." or ".." component or a NUL, a temporary that is
// not named ".sealift-*.tmp" with letters, digits, ".", "-" and "_", a line that
// is too long, an unknown letter, more than 65,536 partials in force or 64 MiB of
// their lines.
//
// A file line holds only when a checkpoint covers it. It is written as soon as
// the file has its name, when the data may be in the page cache only; after a
// power cut such a file can have the right size and times and hold zeros. The
// lines reach the log in the order of writing, so where the checkpoint is
// readable, all that it covers is.
//
// File lines that no checkpoint covers, and written lines, are no proof but can be
// proved: by reading what stands at the destination, from the device, and comparing
// its digests or their states with those of the line. So a run that was killed while
// the device was behind does not have to read the source again.
//
// A partial or done line holds by itself: it is written when what it says is
// true already. A partial that is lost costs time, never data.
//
// A run line parts what a killed run had not covered from what follows. Otherwise the first
// checkpoint of the next run would cover those lines too, although nobody forced
// these files to the device: a cut between the two runs may have emptied them.
//
// The ids in the checksums keep stale lines out. After a crash the end of a log
// can lie in blocks that were allocated but not written, which hold what was in
// them before: lines of another log, or of this one before it was cut short and
// continued. They carry another id.
//
// Checksums keep out accidents. They do not keep out somebody who writes lines on
// purpose: what the log says must be compared with the source and the
// destination before it is used, and no name in it is to be followed out of the
// destination.
package journal
