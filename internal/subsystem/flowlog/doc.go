// SPDX-License-Identifier: Apache-2.0

// Package flowlog keeps records of connections on disk, and finds them again.
//
// Records come in the order in which they were written. 32,768 of them make a block: a column for each field, compressed
// by itself, so that a question reads only the columns that it asks about. In front of the columns is a filter of the
// addresses and translations in the block (a Bloom filter whose bits for one key lie in one line of 64 bytes), and in front
// of that a header with the times that the block is about. Blocks are appended to segments; the oldest segments go when
// the log is larger or older than it may be.
//
// Records that do not fill a block are in RAM, and in the file of the tail: each batch is appended there as it comes, so that
// a daemon that is killed loses none of them. A power cut loses what the kernel had not written yet. A block is synced
// to the disk before the tail is emptied, and every record has a number, so none is there twice. Checksums (CRC-32C)
// find torn ends, which are cut off, and damaged blocks, which are counted and left out.
//
// All numbers in files are little-endian. Times are milliseconds since 1970.
package flowlog
