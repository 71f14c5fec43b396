import { isFalse, listEntries } from "./compose-tree.ts";
import { asMapping } from "./merge-services.ts";
import type { ServiceConversion } from "./service-conversion.ts";

type Explanation = readonly [message: string, hint?: string];

/** Keys of a service that an App does not support. */
const lostKeys: Readonly<Record<string, Explanation>> = {
  privileged: ["an App has the rights of an unprivileged container"],
  cap_add: ["an App has the default capabilities of a container"],
  devices: ["an App cannot use devices of the machine"],
  device_cgroup_rules: ["an App cannot use devices of the machine"],
  gpus: ["an App has no GPU"],
  runtime: ["an App uses the default runtime of the engine"],
  sysctls: ["an App has no kernel settings of its own", "set them on the machine"],
  group_add: ["a process has the groups that its image declares", "user: UID:GID sets one group"],
  pid: ["an App sees only its own processes"],
  ipc: ["an App cannot share memory with other apps"],
  uts: ["an App has a host name of its own"],
  userns_mode: ["an App has the user namespace of the engine"],
  cgroup: ["an App has a cgroup of its own"],
  cgroup_parent: ["Berth chooses the parent of the cgroup"],
  dns: ["the engine resolves names"],
  dns_search: ["the engine resolves names"],
  dns_opt: ["the engine resolves names"],
  domainname: ["a container has no domain name of its own"],
  mac_address: ["the engine chooses the address of a container"],
  isolation: ["it is only for Windows"],
  credential_spec: ["it is only for Windows"],
  storage_opt: ["an App has the default storage options of the engine"],
  blkio_config: ["there is no limit for disks", "resources limits memory and CPUs"],
  cpu_count: ["the only limit for CPUs is resources.cpu", "set resources.cpu"],
  cpu_percent: ["the only limit for CPUs is resources.cpu", "set resources.cpu"],
  cpu_period: ["the only limit for CPUs is resources.cpu", "set resources.cpu"],
  cpu_quota: ["the only limit for CPUs is resources.cpu", "set resources.cpu"],
  cpu_rt_period: ["the only limit for CPUs is resources.cpu", "set resources.cpu"],
  cpu_rt_runtime: ["the only limit for CPUs is resources.cpu", "set resources.cpu"],
  cpu_shares: ["the only limit for CPUs is resources.cpu", "set resources.cpu"],
  cpuset: ["the only limit for CPUs is resources.cpu", "set resources.cpu"],
  memswap_limit: ["swap is not limited"],
  mem_swappiness: ["swap is not limited"],
  oom_kill_disable: ["an app above its memory limit is killed"],
  oom_score_adj: ["an app above its memory limit is killed"],
  pids_limit: ["the number of processes is not limited"],
  volumes_from: [
    "volumes belong to one app",
    "mount the same folder of the machine (hostPath) in both apps",
  ],
  external_links: [
    "containers that Berth does not run are not on the network of the apps",
    "publish a port of these containers",
  ],
  post_start: ["an App has no hooks: only its command runs in the container"],
  pre_stop: ["an App has no hooks: only its command runs in the container"],
  provider: ["an App needs an image"],
  use_api_socket: ["an App has no access to the engine's socket"],
  models: [
    "language models are resources of the kind Model",
    "declare a Model, and name it in models of the App",
  ],
  label_file: ["containers have only the labels of Berth"],
};

/** Keys that have no equivalent in an App, but whose absence does not affect the user. */
const harmlessKeys: Readonly<Record<string, Explanation>> = {
  init: ["every container of Berth has an init process"],
  tty: ["a container of Berth has no terminal"],
  stdin_open: ["a container of Berth has no standard input"],
  logging: ["Berth keeps the last 30 MB of each container's log: `berth logs`"],
  mem_reservation: ["Berth runs apps on one machine, and does not reserve resources for them"],
  annotations: ["containers have only the labels of Berth"],
  attach: ["this key only affects the output of Compose in the terminal"],
  develop: ["this key only affects `compose watch`"],
};

/** Reports every key without an equivalent in an App. */
export function reportUnsupportedKeys(conversion: ServiceConversion): void {
  for (const entry of conversion.listEntries(conversion.body)) {
    const [level, table] =
      keyTables.find(([, keys]) => Object.hasOwn(keys, entry.key)) ?? ([] as const);
    const explanation = table?.[entry.key];
    if (!level || !explanation) continue;
    if (isFalse(entry.value) && entry.key !== "init") conversion.markHandled(entry.value);
    else if (level === "lost") conversion.addLoss(entry, ...explanation);
    else conversion.addNote(entry, ...explanation);
  }
  reportExtraHosts(conversion);
}

const keyTables = [
  ["lost", lostKeys],
  ["note", harmlessKeys],
] as const;

function reportExtraHosts(conversion: ServiceConversion): void {
  const node = conversion.getNode("extra_hosts");
  if (!node) return;
  for (const item of node.kind === "list" ? node.items : []) conversion.markHandled(item);
  for (const { key, value } of listEntries(asMapping(node))) {
    const isMachine = value.kind === "scalar" && value.text === "host-gateway";
    if (isMachine && key === "host.docker.internal") conversion.markHandled(value);
    else if (isMachine) {
      conversion.addLoss(value, `the name of the machine is host.docker.internal, not ${key}`);
    } else {
      conversion.addLoss(
        value,
        `the name ${key} is not in the container's hosts file`,
        "use the address instead",
      );
    }
  }
}
