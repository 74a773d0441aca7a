package sqlite_test
import ("testing";"fmt";"github.com/a2a-sidecar/a2a-sidecar/internal/storetest")
func TestZZ(t *testing.T){ for seed:=uint64(1000); seed<1150; seed++ { t.Run(fmt.Sprint(seed), func(t *testing.T){ storetest.Differential(t, openMemory, seed, 300) }) } }
