// SPDX-License-Identifier: Apache-2.0

// Package config is the router's one file: its schema as Go types, the strict
// YAML decoder, the checks that need the whole file, the differences between
// two files, and the secrets that stand beside it.
//
// The way of a file: Load or Parse refuses what the schema (schema.go) doesn't
// know; Check refuses what the parts can't mean together; Warnings names what
// is legal but odd. A refusal is an *Error whose problems carry place, line,
// caret and the nearest right word, for people and, as JSON, for programs.
//
// ReadDocument reads files of other schemas, the lab's, by the same rules.
//
// The schema's tags are the only description of the keys: the decoder
// (decode.go), Marshal, JSONSchema and Reference all read them through
// fields.go, so a new key is one line in schema.go and, where it can clash with
// something else, a check. What is asked of all keys is a walk over the tags (walk.go):
// the defaults, which Parse puts in place once (Normalize), and the secrets, interfaces and
// files that are named (uses.go).
package config
