// SPDX-License-Identifier: Apache-2.0

package classbench

import (
	"testing"

	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

func newTestBed(t *testing.T) *bed {
	t.Helper()
	b, err := newBed(classify.Full)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}
