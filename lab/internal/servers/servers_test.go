package servers

import (
	"testing"
	"time"
)

func TestALoadIsReadFromInfo(t *testing.T) {
	info := "# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:0.25\r\nused_cpu_sys_children:9\r\nused_memory:7\r\n" +
		"total_net_input_bytes:20\r\ntotal_net_output_bytes:3\r\nconnected_clients:2\r\ntotal_commands_processed:19\r\n" +
		"# Commandstats\r\ncmdstat_set:calls=10,usec=1\r\ncmdstat_client|setinfo:calls=3,usec=1\r\n"
	l, err := ParseLoad(info)
	if err != nil {
		t.Fatal(err)
	}
	l = l.Plus(l).Plus(l).Minus(l)
	if l.CPU != 3500*time.Millisecond || l.Memory != 14 || l.Network != 46 || l.Clients != 4 || l.Commands != 38 || l.Calls["set"] != 20 || l.Calls["client|setinfo"] != 6 {
		t.Errorf("twice the load is %+v", l)
	}
	for _, bad := range []string{"# nothing\r\n", info + "used_memory:much\r\n", info + "cmdstat_get:calls=few\r\n"} {
		if _, err := ParseLoad(bad); err == nil {
			t.Errorf("ParseLoad of %q has no error", bad)
		}
	}
}
