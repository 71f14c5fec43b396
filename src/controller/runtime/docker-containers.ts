import type { ContainerInspectInfo } from "dockerode";
import { BerthError } from "../../base/errors.ts";
import { type MountSpec, NO_RESTRICTIONS, type Restrictions } from "../container-settings.ts";
import { APP, IMAGE_REFERENCE, INSTANCE } from "../labels.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { buildEndpoint } from "./docker-endpoints.ts";
import { getEngineMessage, getHttpStatus, isAddressRefused } from "./docker-errors.ts";
import { CREATE_LIMIT_MS, READ_LIMIT_MS, REMOVE_LIMIT_MS, STOP_EXTRA_MS } from "./docker-limits.ts";
import { toObservedContainer } from "./docker-observe.ts";
import { HOST_ALIAS, type SettingsReader } from "./docker-settings.ts";
import type { ContainerSpec, Labels, ObservedContainer } from "./port.ts";

/**
 * The maximum number of concurrent inspections for one list. Concurrent inspections save most of the round-trip time;
 * more of them would overload the engine.
 */
const INSPECTIONS_MAX = 16;

export async function listContainers(
  connection: DockerConnection,
  readers: {
    readonly inspect: (id: string) => Promise<ContainerInspectInfo | undefined>;
    readonly settings: SettingsReader;
  },
  filter: { readonly instance: string; readonly app?: string },
  signal: AbortSignal,
): Promise<ObservedContainer[]> {
  const listed = await connection.call(
    "list the containers",
    READ_LIMIT_MS,
    signal,
    (docker, abortSignal) =>
      docker.listContainers({
        all: true,
        filters: { label: buildLabelFilter(filter) },
        abortSignal,
      }),
  );
  const ids = listed.map((item) => item.Id);
  const found: (ObservedContainer | undefined)[] = [];
  let next = 0;
  const worker = async () => {
    for (let index = next++; index < ids.length; index = next++) {
      const inspected = await readers.inspect(ids[index] ?? "");
      found[index] =
        inspected &&
        toObservedContainer(
          inspected,
          getEngineHost(connection),
          await readers.settings.read(inspected, signal),
        );
    }
  };
  await Promise.all(Array.from({ length: Math.min(INSPECTIONS_MAX, ids.length) }, worker));
  return found.filter((item) => item !== undefined);
}

/** Inspects a container. Returns undefined if the container does not exist. */
export async function inspectContainer(
  connection: DockerConnection,
  idOrName: string,
  signal: AbortSignal,
): Promise<ContainerInspectInfo | undefined> {
  return connection.call(
    `inspect the container ${shortenId(idOrName)}`,
    READ_LIMIT_MS,
    signal,
    async (docker, abortSignal) => {
      try {
        return await docker.getContainer(encodeURIComponent(idOrName)).inspect({ abortSignal });
      } catch (error) {
        if (getHttpStatus(error) === 404) return undefined;
        throw error;
      }
    },
  );
}

/** Creates a container that asks for `address`; undefined lets the engine choose one at each start. */
export async function createContainer(
  connection: DockerConnection,
  spec: ContainerSpec,
  address: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  try {
    return await createOrReuse(connection, spec, address, signal);
  } catch (error) {
    if (address === undefined || !isAddressRefused(error)) throw error;
    return createOrReuse(connection, spec, undefined, signal);
  }
}

async function createOrReuse(
  connection: DockerConnection,
  spec: ContainerSpec,
  address: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  const created = await tryCreate(connection, spec, address, signal);
  if (created !== undefined) return created;
  const there = await inspectContainer(connection, spec.name, signal);
  if (there && !hasLabels(there.Config.Labels, spec.labels)) throw foreignContainerError(spec.name);
  if (there && there.State.Status !== "removing" && !there.State.Dead) return there.Id;
  // The existing container belongs to Berth and is being removed, or was removed between the two calls, so the name is
  // tried once more.
  if (there) await waitUntilRemoved(connection, there.Id, signal);
  const again = await tryCreate(connection, spec, address, signal);
  if (again === undefined) throw foreignContainerError(spec.name);
  return again;
}

/** Creates a container. Returns undefined if the name is in use. */
function tryCreate(
  connection: DockerConnection,
  spec: ContainerSpec,
  address: string | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  return connection.call(
    `create the container ${spec.name} from ${spec.image}`,
    CREATE_LIMIT_MS,
    signal,
    async (docker, abortSignal) => {
      // With _query and _body, dockerode does not repeat the body in the URL. The body contains secrets in env.
      const body = buildCreateBody(spec, address);
      const { name, platform } = spec;
      const query = { name, ...(platform !== undefined && { platform }) };
      const options = { _query: query, _body: body, abortSignal };
      try {
        const made = await docker.createContainer(options);
        return made.id;
      } catch (error) {
        if (getHttpStatus(error) === 409 && /already in use/i.test(getEngineMessage(error)))
          return undefined;
        throw error;
      }
    },
  );
}

export async function stopContainer(
  connection: DockerConnection,
  id: string,
  graceMs: number,
  signal: AbortSignal,
): Promise<void> {
  await connection.call(
    `stop the container ${shortenId(id)}`,
    graceMs + STOP_EXTRA_MS,
    signal,
    async (docker, abortSignal) => {
      try {
        await docker
          .getContainer(encodeURIComponent(id))
          .stop({ t: Math.ceil(graceMs / 1000), abortSignal });
      } catch (error) {
        const status = getHttpStatus(error);
        if (status !== 304 && status !== 404) throw error;
      }
    },
  );
}

export async function removeContainer(
  connection: DockerConnection,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  const underWay = await connection.call(
    `remove the container ${shortenId(id)}`,
    REMOVE_LIMIT_MS,
    signal,
    async (docker, abortSignal) => {
      try {
        await docker
          .getContainer(encodeURIComponent(id))
          .remove({ force: true, v: true, abortSignal });
        return false;
      } catch (error) {
        if (getHttpStatus(error) === 404) return false;
        if (getHttpStatus(error) === 409 && /already in progress/i.test(getEngineMessage(error)))
          return true;
        throw error;
      }
    },
  );
  if (underWay) await waitUntilRemoved(connection, id, signal);
}

function waitUntilRemoved(
  connection: DockerConnection,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  return connection.call(
    `wait for the removal of the container ${shortenId(id)}`,
    REMOVE_LIMIT_MS,
    signal,
    async (docker, abortSignal) => {
      try {
        await docker
          .getContainer(encodeURIComponent(id))
          .wait({ condition: "removed", abortSignal });
      } catch (error) {
        if (getHttpStatus(error) !== 404) throw error;
      }
    },
  );
}

export async function renameContainer(
  connection: DockerConnection,
  id: string,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  try {
    await connection.call(
      `rename the container ${shortenId(id)} to ${name}`,
      READ_LIMIT_MS,
      signal,
      (docker, abortSignal) =>
        docker.getContainer(encodeURIComponent(id)).rename({ name, abortSignal }),
    );
  } catch (error) {
    // The engine refuses to rename a container to the name that it already has, so this is not a failure.
    const there = await inspectContainer(connection, id, signal);
    if (there?.Name === `/${name}`) return;
    if (error instanceof BerthError && error.code === "name_clash")
      throw foreignContainerError(name);
    throw error;
  }
}

/** Returns the host of an engine on another machine; undefined for an engine on this machine. */
export function getEngineHost(connection: DockerConnection): string | undefined {
  return connection.address.transport === "unix" ? undefined : connection.address.host;
}

export function buildLabelFilter(filter: {
  readonly instance: string;
  readonly app?: string;
}): string[] {
  const labels = [`${INSTANCE}=${filter.instance}`];
  if (filter.app !== undefined) labels.push(`${APP}=${filter.app}`);
  return labels;
}

/** Compares only the requested labels, because images add their own labels. */
export function hasLabels(there: Labels | null | undefined, wanted: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => there?.[key] === value);
}

function foreignContainerError(name: string): BerthError {
  return new BerthError(
    "name_clash",
    `the container name ${name} is in use by another container that Berth does not own`,
    {
      hint: `rename or remove the container: docker rename ${name} NEW-NAME, or docker rm -f ${name}`,
    },
  );
}

export function shortenId(idOrName: string): string {
  return /^[0-9a-f]{64}$/.test(idOrName) ? idOrName.slice(0, 12) : idOrName;
}

/** Limits the logs of one container to 30 MB; the engine's default has no limit. */
const LOG_OPTIONS = { "max-size": "10m", "max-file": "3" };

function buildCreateBody(
  spec: ContainerSpec,
  address: string | undefined,
): Record<string, unknown> {
  const ports = spec.publish.map((item) => ({
    key: `${item.containerPort}/${item.protocol}`,
    binding: { HostIp: item.hostAddress, HostPort: String(item.hostPort) },
  }));
  return {
    Image: spec.imageId ?? spec.image,
    Labels: { ...spec.labels, [IMAGE_REFERENCE]: spec.image },
    Env: spec.env,
    Entrypoint: spec.entrypoint,
    Cmd: spec.command,
    User: spec.user,
    WorkingDir: spec.workingDir,
    Hostname: spec.hostname,
    StopTimeout: Math.ceil(spec.stopGraceMs / 1000),
    ExposedPorts: Object.fromEntries(ports.map(({ key }) => [key, {}])),
    HostConfig: {
      // The engine's own restarts are off, because Berth restarts containers itself, within the App's restart budget.
      RestartPolicy: { Name: "no" },
      // An init process reaps zombies and forwards signals, for images whose process does neither.
      Init: true,
      LogConfig: { Type: "json-file", Config: LOG_OPTIONS },
      NetworkMode: spec.network,
      ExtraHosts: [HOST_ALIAS, ...(spec.hostAliases ?? [])].map((name) => `${name}:host-gateway`),
      Mounts: spec.mounts.map(toMount),
      ...buildRestrictions(spec.restrictions ?? NO_RESTRICTIONS),
      Ulimits: (spec.ulimits ?? []).map(({ name, soft, hard }) => ({
        Name: name,
        Soft: soft,
        Hard: hard,
      })),
      ShmSize: spec.shmBytes,
      PortBindings: Object.fromEntries(
        ports.map(({ key }) => [
          key,
          ports.filter((item) => item.key === key).map((item) => item.binding),
        ]),
      ),
      Memory: spec.memoryBytes,
      NanoCpus: spec.nanoCpus,
    },
    NetworkingConfig: {
      EndpointsConfig: { [spec.network]: buildEndpoint({ aliases: spec.aliases, address }) },
    },
  };
}

function buildRestrictions(restrictions: Restrictions): Record<string, unknown> {
  const { readOnlyRoot, dropCapabilities, noNewPrivileges, tmpfs } = restrictions;
  return {
    ReadonlyRootfs: readOnlyRoot,
    CapDrop: dropCapabilities,
    SecurityOpt: noNewPrivileges ? ["no-new-privileges"] : [],
    Tmpfs: Object.fromEntries(
      tmpfs.map(({ path, sizeBytes }) => [
        path,
        sizeBytes === undefined ? "" : `size=${sizeBytes}`,
      ]),
    ),
  };
}

function toMount(spec: MountSpec): Record<string, unknown> {
  return {
    Type: spec.type,
    Source: spec.type === "volume" ? spec.volume : spec.hostPath,
    Target: spec.path,
    ReadOnly: spec.readOnly,
  };
}
