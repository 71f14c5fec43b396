import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, posix } from "node:path";

export interface CoreSources {
  /** The number of CPUs on which this process may run. */
  readonly parallelism: number;
  /** Reads a file of the system, such as /proc/self/cgroup; undefined if there is none. */
  readonly read: (path: string) => string | undefined;
}

const systemSources: CoreSources = {
  get parallelism() {
    return availableParallelism();
  },
  read(path) {
    try {
      return readFileSync(path, "utf8");
    } catch {
      return undefined;
    }
  },
};

/**
 * Counts the threads that can compute at a time without waiting for a core: one for each CPU of this process, but not
 * more than its cgroups' quota (rounded down), nor more than the physical cores, because hyper-threads share the units
 * that multiply. The result is at least 1.
 */
export function countCores(sources: CoreSources = systemSources): number {
  const quota = Math.floor(readCgroupQuota(sources.read));
  const physical = countPhysicalCores(sources) ?? Number.POSITIVE_INFINITY;
  return Math.max(1, Math.min(sources.parallelism, quota, physical));
}

/** Returns the smallest quota of the process's cgroup and its ancestors, in cores. */
function readCgroupQuota(read: CoreSources["read"]): number {
  let quota = Number.POSITIVE_INFINITY;
  for (const line of (read("/proc/self/cgroup") ?? "").split("\n")) {
    const [, controllers, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers === undefined || path === undefined) continue;
    if (controllers === "") {
      for (const group of listGroupFolders("/sys/fs/cgroup", path)) {
        quota = Math.min(quota, parseCgroupV2Quota(read(join(group, "cpu.max"))));
      }
    } else if (controllers.split(",").includes("cpu")) {
      for (const root of [`/sys/fs/cgroup/${controllers}`, "/sys/fs/cgroup/cpu"]) {
        for (const group of listGroupFolders(root, path))
          quota = Math.min(quota, readCgroupV1Quota(read, group));
      }
    }
  }
  return quota;
}

/** Returns the folders of a cgroup and its ancestors, up to the root. */
function listGroupFolders(root: string, path: string): readonly string[] {
  const folders = [root];
  for (let group = posix.normalize(path); group !== "/" && group !== "."; ) {
    folders.push(posix.join(root, group));
    group = posix.dirname(group);
  }
  return folders;
}

/** Parses `cpu.max`: the quota (or `max`) and the period, both in microseconds. */
function parseCgroupV2Quota(text: string | undefined): number {
  const [quota, period] = (text ?? "").trim().split(/\s+/).map(Number);
  return toCores(quota, period);
}

function readCgroupV1Quota(read: CoreSources["read"], group: string): number {
  const number = (name: string) => Number(read(join(group, name)) ?? Number.NaN);
  return toCores(number("cpu.cfs_quota_us"), number("cpu.cfs_period_us"));
}

function toCores(quota: number | undefined, period: number | undefined): number {
  const known = quota !== undefined && period !== undefined && quota > 0 && period > 0;
  return known ? quota / period : Number.POSITIVE_INFINITY;
}

/** Returns the number of physical cores; undefined if the system does not report it. */
function countPhysicalCores({ read }: CoreSources): number | undefined {
  const allowed = /^Cpus_allowed_list:\s*(\S+)/m.exec(read("/proc/self/status") ?? "")?.[1];
  if (allowed === undefined) return undefined;
  const cores = new Set<string>();
  for (const cpu of expandRanges(allowed)) {
    const siblings = read(`/sys/devices/system/cpu/cpu${cpu}/topology/thread_siblings_list`);
    if (siblings === undefined) return undefined;
    cores.add(siblings.trim());
  }
  return cores.size > 0 ? cores.size : undefined;
}

/** Expands `0-3,8` to 0, 1, 2, 3, 8. */
function expandRanges(text: string): readonly number[] {
  return text.split(",").flatMap((range) => {
    const [first = Number.NaN, last = first] = range.split("-").map(Number);
    if (!Number.isInteger(first) || !Number.isInteger(last)) return [];
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
}
