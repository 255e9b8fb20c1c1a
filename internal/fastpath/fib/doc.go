// SPDX-License-Identifier: Apache-2.0

// Package fib compiles routes into flat images that the fast path's eBPF program searches.
package fib
