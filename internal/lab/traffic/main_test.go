// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"testing"

	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }
