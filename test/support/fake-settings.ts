import {
  type ContainerSettings,
  NO_RESTRICTIONS,
  type ProcessSettings,
} from "../../src/controller/container-settings.ts";
import type { ContainerSpec } from "../../src/controller/runtime/port.ts";

export const NO_DEFAULTS: ProcessSettings = {
  env: [],
  entrypoint: [],
  command: [],
  user: "",
  workingDir: "",
};

/** Returns the settings of a container that was created from `spec`, as an engine reports them. */
export function describeSettings(
  spec: ContainerSpec,
  defaults: ProcessSettings = NO_DEFAULTS,
): ContainerSettings {
  const hasEntrypoint = (spec.entrypoint ?? []).length > 0;
  const isReset = spec.entrypoint?.join() === "";
  const names = new Set(spec.env.map((item) => item.split("=", 1)[0]));
  const inherited = defaults.env.filter((item) => !names.has(item.split("=", 1)[0]));
  return {
    image: spec.imageId ?? spec.image,
    env: [...spec.env, ...inherited],
    entrypoint: isReset ? [] : (spec.entrypoint ?? defaults.entrypoint),
    command: spec.command?.length ? spec.command : hasEntrypoint ? [] : defaults.command,
    user: spec.user ?? defaults.user,
    workingDir: spec.workingDir ?? defaults.workingDir,
    imageDefaults: defaults,
    networkMode: spec.network,
    aliases: Object.fromEntries(
      [spec, ...(spec.furtherNetworks ?? [])].map(({ network, aliases }) => [network, aliases]),
    ),
    hostAliases: spec.hostAliases ?? [],
    mounts: spec.mounts,
    publish: spec.publish,
    restrictions: spec.restrictions ?? NO_RESTRICTIONS,
    ulimits: spec.ulimits ?? [],
    hostname: spec.hostname ?? "0123456789ab",
    shmBytes: spec.shmBytes ?? 64 * 2 ** 20,
    foreign: [],
  };
}
