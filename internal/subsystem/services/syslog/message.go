// SPDX-License-Identifier: Apache-2.0

package syslog

import (
	"fmt"
	"strings"
	"unicode"
)

// Severities (RFC 5424, section 6.2.1) of the levels that the log has.
var severities = map[string]int{"ERROR": 3, "WARN": 4, "INFO": 6, "DEBUG": 7}

// least are the severities of the words in the configuration: what has a greater number is not sent.
var least = map[string]int{"error": 3, "warning": 4, "info": 6}

const (
	facility = 3    // system daemons
	mostUDP  = 2048 // bytes that every receiver should take (RFC 5424, section 6.1)
	mostText = 8192
)

// record is a line of the log, taken apart.
type record struct {
	time, level, task, text string
}

// parse takes a line of slog's text handler apart: time=… level=… msg=… and more. What has no such words is all text.
func parse(line string) (r record) {
	rest := line
	take := func(key string) string {
		after, ok := strings.CutPrefix(rest, key+"=")
		if !ok {
			return ""
		}
		value, more, _ := strings.Cut(after, " ")
		rest = more
		return value
	}
	r.time, r.level = take("time"), take("level")
	r.text = rest
	if i := strings.Index(rest, " task="); i >= 0 {
		r.task, _, _ = strings.Cut(rest[i+len(" task="):], " ")
	}
	return r
}

// message is a line of the log as RFC 5424, section 6, has it, and its severity.
func message(line, host string, pid int) (text string, severity int) {
	r := parse(line)
	severity, known := severities[r.level]
	if !known {
		severity = 6
	}
	body := strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' ' // a line stays a line
		}
		return c
	}, r.text)
	if len(body) > mostText {
		body = strings.ToValidUTF8(body[:mostText], "")
	}
	return fmt.Sprintf("<%d>1 %s %s minne %d %s - %s", facility*8+severity, field(r.time, 32), field(host, 255), pid, field(r.task, 32), body), severity
}

// field is a value of the header: printable ASCII without blanks, or "-" for none.
func field(value string, most int) string {
	value = strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' {
			return -1
		}
		return c
	}, value)
	if value == "" {
		return "-"
	}
	return value[:min(len(value), most)]
}
