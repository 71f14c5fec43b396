import { describe, expect, it } from "vitest";
import { countCores } from "../../../../../src/assistant/inference/llama/threads/count-cores.ts";

function count(parallelism: number, files: Record<string, string>): number {
  return countCores({ parallelism, read: (path) => files[path] });
}

/** Returns the topology file of `cpu`, which lists the CPUs of its core. */
function siblings(cpu: number, list: string): Record<string, string> {
  return { [`/sys/devices/system/cpu/cpu${cpu}/topology/thread_siblings_list`]: list };
}

function allowed(list: string): Record<string, string> {
  return { "/proc/self/status": `Cpus_allowed_list:\t${list}\n` };
}

const unified = { "/proc/self/cgroup": "0::/machine/berth.service\n" };

describe("the number of cores", () => {
  it("is the number of the process's CPUs if nothing else is known", () => {
    expect(count(6, {})).toBe(6);
  });

  it("is at most the CPU quota of the process's cgroup, rounded down", () => {
    const path = "/sys/fs/cgroup/machine/berth.service/cpu.max";
    expect(count(8, { ...unified, [path]: "250000 100000\n" })).toBe(2);
    expect(count(8, { ...unified, [path]: "max 100000\n" })).toBe(8);
  });

  it("is at most the CPU quota of an enclosing cgroup", () => {
    const files = {
      ...unified,
      "/sys/fs/cgroup/machine/berth.service/cpu.max": "max 100000",
      "/sys/fs/cgroup/machine/cpu.max": "300000 100000",
    };
    expect(count(8, files)).toBe(3);
  });

  it("respects CPU quotas of cgroups v1 too", () => {
    const files = {
      "/proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/docker/abc\n",
      "/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "200000",
      "/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000",
    };
    expect(count(8, files)).toBe(2);
    expect(
      count(8, { ...files, "/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "-1" }),
    ).toBe(8);
  });

  it("is at least one, even with a smaller quota", () => {
    const path = "/sys/fs/cgroup/machine/berth.service/cpu.max";
    expect(count(8, { ...unified, [path]: "50000 100000" })).toBe(1);
  });

  it("counts hyper-threads of one core once, and only the CPUs that the process may use", () => {
    const machine = {
      ...siblings(0, "0,4\n"),
      ...siblings(1, "1,5\n"),
      ...siblings(2, "2,6\n"),
      ...siblings(4, "0,4\n"),
      ...siblings(5, "1,5\n"),
    };
    expect(count(4, { ...machine, ...allowed("0-1,4-5") })).toBe(2);
    expect(count(3, { ...machine, ...allowed("0-2") })).toBe(3);
    // CPU 7 has no topology file, so the number of physical cores is unknown.
    expect(count(2, { ...machine, ...allowed("0,7") })).toBe(2);
  });
});
