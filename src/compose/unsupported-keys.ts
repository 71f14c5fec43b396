import { isFalse, listEntries } from "./compose-tree.ts";
import { asMapping } from "./merge-services.ts";
import type { ServiceConversion } from "./service-conversion.ts";

type Explanation = readonly [message: string, hint?: string];

/** What a service asks for and an App cannot have. */
const lostKeys: Readonly<Record<string, Explanation>> = {
  privileged: ["an App has no rights beyond those of every container"],
  cap_add: ["an App has the capabilities of every container, and no more"],
  cap_drop: ["an App keeps the capabilities that every container has"],
  security_opt: ["an App has the engine's own security settings"],
  devices: ["an App has no devices of the machine"],
  device_cgroup_rules: ["an App has no devices of the machine"],
  gpus: ["an App has no GPU"],
  runtime: ["an App runs with the engine's own runtime"],
  sysctls: ["an App has no kernel settings of its own", "set them on the machine"],
  ulimits: ["an App has the limits of the engine", "set them in the engine's own configuration"],
  shm_size: ["/dev/shm has 64 MB"],
  read_only: ["the container can write to its own file system"],
  group_add: ["a process has the groups that its image gives it", "user: UID:GID sets one group"],
  pid: ["an App sees its own processes only"],
  ipc: ["an App shares no memory with others"],
  uts: ["an App has a host name of its own"],
  userns_mode: ["an App has the user namespace of the engine"],
  cgroup: ["an App has a cgroup of its own"],
  cgroup_parent: ["Berth says where the cgroup is"],
  dns: ["names are looked up by the engine"],
  dns_search: ["names are looked up by the engine"],
  dns_opt: ["names are looked up by the engine"],
  domainname: ["a container has no domain name of its own"],
  mac_address: ["a container has no address of its own choice"],
  platform: ["images are those of the machine's own platform"],
  isolation: ["it is for Windows"],
  credential_spec: ["it is for Windows"],
  storage_opt: ["an App has the storage options of the engine"],
  blkio_config: ["there is no limit for disks", "resources limits memory and CPUs"],
  cpu_count: ["CPUs are limited as a whole", "resources.cpu"],
  cpu_percent: ["CPUs are limited as a whole", "resources.cpu"],
  cpu_period: ["CPUs are limited as a whole", "resources.cpu"],
  cpu_quota: ["CPUs are limited as a whole", "resources.cpu"],
  cpu_rt_period: ["CPUs are limited as a whole", "resources.cpu"],
  cpu_rt_runtime: ["CPUs are limited as a whole", "resources.cpu"],
  cpu_shares: ["CPUs are limited as a whole", "resources.cpu"],
  cpuset: ["CPUs are limited as a whole", "resources.cpu"],
  memswap_limit: ["swap is not limited"],
  mem_swappiness: ["swap is not limited"],
  oom_kill_disable: ["an app above its memory limit is ended"],
  oom_score_adj: ["an app above its memory limit is ended"],
  pids_limit: ["processes are not limited"],
  volumes_from: ["volumes belong to one app", "mount folders of the machine (hostPath) in both"],
  external_links: [
    "containers that are not Berth's are not on its network",
    "publish a port of them",
  ],
  post_start: ["nothing runs in a container beside its command"],
  pre_stop: ["nothing runs in a container beside its command"],
  provider: ["an App is made of an image"],
  use_api_socket: ["an App does not have the engine's socket"],
  models: ["language models are the kind Model", "a Model, and models of the App"],
  label_file: ["containers carry the labels of Berth only"],
};

/** What has no effect that anybody would miss. */
const harmlessKeys: Readonly<Record<string, Explanation>> = {
  init: ["every container of Berth has a small init"],
  tty: ["a container of Berth has no terminal"],
  stdin_open: ["a container of Berth has no standard input"],
  logging: ["Berth keeps the last 30 MB of each container's log: `berth logs`"],
  mem_reservation: ["nothing is reserved: one machine has nowhere else to go"],
  annotations: ["containers carry the labels of Berth only"],
  attach: ["it is for the terminal that Compose runs in"],
  develop: ["it is for `compose watch`"],
};

/** Reports every key for which there is no counterpart at all. */
export function reportUnsupportedKeys(conversion: ServiceConversion): void {
  for (const entry of conversion.listEntries(conversion.body)) {
    const [table, level] = Object.hasOwn(lostKeys, entry.key)
      ? ([lostKeys, "lost"] as const)
      : ([harmlessKeys, "note"] as const);
    const explanation = Object.hasOwn(table, entry.key) ? table[entry.key] : undefined;
    if (!explanation) continue;
    if (isFalse(entry.value) && entry.key !== "init") conversion.markHandled(entry.value);
    else if (level === "lost") conversion.addLoss(entry, ...explanation);
    else conversion.addNote(entry, ...explanation);
  }
  reportExtraHosts(conversion);
}

function reportExtraHosts(conversion: ServiceConversion): void {
  const node = conversion.getNode("extra_hosts");
  if (!node) return;
  for (const item of node.kind === "list" ? node.items : []) conversion.markHandled(item);
  for (const { key, value } of listEntries(asMapping(node))) {
    const isMachine = value.kind === "scalar" && value.text === "host-gateway";
    if (isMachine && key === "host.docker.internal") conversion.markHandled(value);
    else if (isMachine) {
      conversion.addLoss(value, `the machine is called host.docker.internal, not ${key}`);
    } else {
      conversion.addLoss(
        value,
        `the name ${key} is not in the container's hosts file`,
        "write the address",
      );
    }
  }
}
