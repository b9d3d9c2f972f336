// Package disktest shows tests what a disk may do to a program: lose what was
// not synced, be full, fail.
//
// Record runs a program under strace and keeps every change it made below a
// folder. Recording.Image is the disk as it may be after a power cut at any
// point of that run: what a completed fsync covers is there, of everything
// else nothing, or a random part, torn at sectors of 512 bytes. A name is
// there once its folder was synced. An fsync that failed covers nothing, then
// or later, as the page cache of Linux has it.
//
// Faults make system calls of that run fail. Mount is a small file system of
// its own that can be filled and emptied. Both skip the test, with the reason,
// where the system does not allow them.
//
// Memory that a program maps and writes to is not seen; files that are nothing
// but such memory are to be left out.
package disktest
