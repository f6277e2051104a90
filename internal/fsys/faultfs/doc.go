// Package faultfs makes file systems for tests. An Injector lets operations fail at a chosen
// moment. A Disk loses unflushed data. OpenFiles lists open descriptors. Each belongs to one fsys.FS, so tests run beside each other.
package faultfs
