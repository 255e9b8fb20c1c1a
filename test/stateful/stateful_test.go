// SPDX-License-Identifier: Apache-2.0

// Package stateful holds the fast path to what the kernel does where a firewall
// keeps state and translates addresses: two equal routers, one with the fast path
// and one without, get the same frames, and what comes out must be the same; and
// real hosts talk through one router while its fast path comes and goes, its
// policy changes and its connections end. With MINNE_TEST_LONG=1 more bytes and
// frames go through.
package stateful

import (
	"flag"
	"os"
	"testing"

	"minne/internal/testing/testns"
)

// Those that run at once mostly wait: more of them than there are CPUs.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	testns.Main(m)
}

// long says that there is time.
var long = os.Getenv("MINNE_TEST_LONG") == "1"
