// Package journal is the log of an unfinished copy. It records the completed work at one
// destination, so that the same command continues after a kill or a power cut.
//
// # Format
//
// One line of text for each record, only ever appended:
//
//	checksum SP rest LF
//
// The checksum is the CRC-32C, as eight hexadecimal digits, of an id followed by
// rest. The header has no id there. A "run" line uses the header's id. All other lines use the
// id of the last run line above, or the header's if there is no run line. The rest is a
// letter and its fields, with one space between them. The header begins with a word:
//
//		sealift-journal 1 ID BEGUN OPTIONS SOURCE
//		f SIZE MTIME CTIME DIGESTS PATH
//		p OFFSET SIZE MTIME CTIME TEMP STATES PATH
//		d PATH
//		c UPTO TIME
//		r ID
//
//	  - header, the first line and no other: the id of the log; when it was begun;
//	    the options it is valid for, one word of printable ASCII that this
//	    package does not interpret; the source.
//	  - file: a file exists at the destination; it was copied, or found equal. Size and
//	    times are the source's; the digests are in the order of the options.
//	  - partial: the first OFFSET bytes of a file are on the device, in the
//	    temporary TEMP in the file's directory. STATES are those of the running
//	    digests at OFFSET.
//	  - done: the partial lines of this path above are not valid any more; the temporary was
//	    removed or has the file's name.
//	  - checkpoint: at TIME, all files whose lines begin before byte UPTO of the log were
//	    on the device.
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
// other byte unchanged. Hexadecimal digits are lower-case. So each record has one
// spelling only, and
//
//	grep ' f .* some/file$'
//
// finds the records of a file.
//
// # Which lines a reader trusts
//
// The destination may be a disk from an untrusted person. A reader accepts lines from the first one
// up to one that is torn, damaged, or different from everything that a Writer writes. It
// ignores all lines from there on. A line is damaged if it has one of these:
//
//   - a wrong checksum, another spelling, an unknown letter, or too many bytes;
//   - a number out of its range, or an offset of 0 or beyond the size;
//   - a checkpoint of lines that come after it, or of fewer than the one before;
//   - a path that is empty, absolute, longer than MaxPath, or has a NUL or an empty, "." or
//     ".." component;
//   - a temporary whose name is not ".sealift-*.tmp" with letters, digits, ".", "-" and "_";
//   - more than 65,536 partials in force, or 64 MiB of their lines.
//
// A file line is valid only if a checkpoint covers it. The caller records a file when it has
// its name, when the data may be only in the page cache. After a power cut the file can have
// the right size and times and contain zeros. The lines reach the log in the order of
// writing. So if the checkpoint is readable, all lines that it covers are, too.
//
// A partial or done line is valid without a checkpoint, because its statement is already
// true when it is written. A lost partial costs time, never data.
//
// A run line separates lines of a killed run that no checkpoint covers from later lines.
// Otherwise the first checkpoint of the next run would cover them, too, although no run
// flushed these files. A power cut between the two runs may have emptied them.
//
// The ids in the checksums exclude stale lines. After a crash the end of a log can be in
// blocks that were allocated but not written. They contain older lines: those of another
// log, or of this one before it was truncated and continued. These lines have another id.
//
// Checksums detect accidents. They do not detect lines that a person writes on purpose.
// So compare the log with the source and the destination before you use it, and never
// follow a name in it out of the destination.
package journal
