// SPDX-License-Identifier: Apache-2.0

// Package data has what a platform's benchmark works on: routing tables,
// addresses, patterns and payload. Generators make them from a seed, in the shape of real
// ones, so that every platform gets the same; loaders read real ones: routing tables as text or as MRT
// dumps, pattern files, blocklists, captures.
//
// A line that can't be read is an error that names file, line and reason.
package data
