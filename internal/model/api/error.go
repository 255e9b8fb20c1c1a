// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"net/http"
)

// Kind sorts errors by what the one who asked can do about them.
type Kind string

// The kinds of errors.
const (
	Failed   Kind = "failed"   // it did not work; nothing was changed, or the message says what
	Invalid  Kind = "invalid"  // the configuration is wrong
	Reverted Kind = "reverted" // it was applied, and taken back
	Locked   Kind = "locked"   // another commit runs, or waits for its confirmation
	Denied   Kind = "denied"   // not allowed to this user
	Missing  Kind = "missing"  // no such thing
	Usage    Kind = "usage"    // the question makes no sense, whatever the router's state
)

// Error is an error that keeps its kind on the way to the client.
type Error struct {
	Kind    Kind   `json:"code"`
	Message string `json:"message"`
	Step    string `json:"step,omitempty"` // step of the apply that failed
}

// Failure is every answer that is an error.
type Failure struct {
	Error *Error `json:"error"`
}

func (e *Error) Error() string { return e.Message }

// Misused makes an error of kind Usage of one about a question; nil stays nil.
func Misused(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: Usage, Message: err.Error()}
}

// KindOf returns the kind of the first Error in err's chain, Failed without one.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Failed
}

var statusOf = map[Kind]int{
	Failed:   http.StatusInternalServerError,
	Invalid:  http.StatusUnprocessableEntity,
	Reverted: http.StatusConflict,
	Locked:   http.StatusLocked,
	Denied:   http.StatusForbidden,
	Missing:  http.StatusNotFound,
	Usage:    http.StatusBadRequest,
}
