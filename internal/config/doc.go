// SPDX-License-Identifier: Apache-2.0

// Package config is the router's one file: its schema as Go types, the strict
// YAML decoder, the checks that need the whole file, the differences between
// two files, and the secrets that stand beside it.
package config
