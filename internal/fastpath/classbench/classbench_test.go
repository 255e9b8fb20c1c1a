// SPDX-License-Identifier: Apache-2.0

package classbench

import (
	"testing"

	"minne/internal/fastpath/classify"
	"minne/internal/testns"
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
