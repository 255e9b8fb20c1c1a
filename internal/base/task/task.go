// SPDX-License-Identifier: Apache-2.0

// Package task holds the shape that every long-running piece of the daemon has.
package task

import "context"

// Task runs until its context ends or it fails.
type Task interface {
	// Run blocks. It returns nil when ctx ended, an error when the task can't go on.
	Run(ctx context.Context) error
	// Ready is closed once the task does its work for the first time.
	Ready() <-chan struct{}
	// String names the task in logs and health reports.
	String() string
}
