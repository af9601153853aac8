package app

import (
	"github.com/rotahq/rota/task"
	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/mem"
)

// MachineLoad is the machine's load since it was last asked for; what can't be found out counts as
// none.
func MachineLoad() task.Load {
	var load task.Load
	if busy, err := cpu.Percent(0, false); err == nil && len(busy) == 1 {
		load.CPU = busy[0] / 100
	}
	if m, err := mem.VirtualMemory(); err == nil {
		load.Memory = m.UsedPercent / 100
	}
	return load
}
