import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from "fastify";
import { Registry } from "prom-client";
import { createApiServer } from "../../src/api/api-server.ts";
import type { Clock } from "../../src/base/clock.ts";
import type { ConfigValue } from "../../src/config/config.ts";
import type { Ingress } from "../../src/controller/ingress/port.ts";
import { WebhookSender } from "../../src/controller/notifications/webhook-sender.ts";
import type { AppSpec } from "../../src/resources/app-spec.ts";
import type { AppStatus, Condition } from "../../src/resources/app-status.ts";
import { emptyReconcileState } from "../../src/resources/app-status.ts";
import type { Manifest } from "../../src/resources/kinds.ts";
import type { ReservedPort } from "../../src/resources/reserved-ports.ts";
import type { StoreOptions } from "../../src/store/sqlite-store.ts";
import type { Store, TokenScope } from "../../src/store/store.ts";
import { FakeBuildControl } from "./fake-build-control.ts";
import { FakeControlPlane } from "./fake-control-plane.ts";
import { createRecordingLogger, type LogEntry } from "./recording-logger.ts";
import { openTestStore } from "./test-store.ts";
import type { VirtualClock } from "./virtual-clock.ts";

interface FakeIngressState {
  mode: Ingress["mode"];
  state: Ingress["state"];
  api: Ingress["api"];
}

export interface TestApi extends AsyncDisposable {
  readonly server: FastifyInstance;
  readonly store: Store;
  readonly control: FakeControlPlane;
  readonly builds: FakeBuildControl;
  /** The state of the ingress that the API reports. */
  readonly ingress: FakeIngressState;
  readonly clock: VirtualClock;
  readonly entries: LogEntry[];
  readonly metrics: Registry;
  readonly dataDir: string;
  token(scope: TokenScope): string;
  /** Sends a request with an admin token, unless the request has its own authorization header. */
  request(options: InjectOptions): Promise<LightMyRequestResponse>;
  /** Makes the server listen on a free port of the loopback address. */
  listen(): Promise<string>;
}

/** Opens the API on a real store, with the store's virtual clock unless another clock is given. */
export async function openTestApi(
  options: {
    templates?: readonly Manifest<"Template">[];
    models?: readonly Manifest<"Model">[];
    clock?: Clock;
    uploadBytesMax?: number;
    /** The data directory of the API; by default, that of the store. */
    dataDir?: string;
    hostPaths?: StoreOptions["hostPaths"];
    trustedProxies?: readonly string[];
    apiDomain?: string;
    reservedPorts?: readonly ReservedPort[];
    /** Settings of the server that replace those of the harness. */
    values?: readonly ConfigValue[];
  } = {},
): Promise<TestApi> {
  const opened = openTestStore({
    ...(options.hostPaths ? { hostPaths: options.hostPaths } : {}),
    baseDomain: "example.test",
    catalogTemplates: (options.templates ?? []).map(({ metadata }) => metadata.name),
  });
  const control = new FakeControlPlane(opened.store);
  const builds = new FakeBuildControl(opened.store);
  const ingress: FakeIngressState = {
    mode: "off",
    state: () => ({ ready: false, message: "is off" }),
    api: () => undefined,
  };
  const entries: LogEntry[] = [];
  const logger = createRecordingLogger(entries);
  const metrics = new Registry();
  const clock = options.clock ?? opened.clock;
  const webhooks = new WebhookSender({
    store: opened.store,
    clock,
    logger,
    version: "1.2.3",
    random: () => 0.5,
  });
  webhooks.start();
  const server = createApiServer({
    store: opened.store,
    control,
    builds,
    ingress,
    webhooks,
    clock,
    logger,
    metrics,
    version: "1.2.3",
    config: {
      baseDomain: "example.test",
      apiDomain: options.apiDomain,
      reservedPorts: options.reservedPorts ?? [],
      trustedProxies: options.trustedProxies ?? [],
      dataDir: options.dataDir ?? opened.dataDir,
      values: [
        ...(options.values ?? []),
        { key: "listen", value: "127.0.0.1:0", source: "flag", origin: "--listen" },
        { key: "password", value: "(secret)", source: "environment", origin: "BERTH_PASSWORD" },
      ],
      httpPort: 8080,
      httpsPort: undefined,
      uploadBytesMax: options.uploadBytesMax ?? 512 * 1024 * 1024,
    },
    templates: options.templates ?? [],
    models: options.models ?? [],
  });
  await server.ready();
  const tokens = new Map<TokenScope, string>();
  const token = (scope: TokenScope): string => {
    const known = tokens.get(scope);
    if (known !== undefined) return known;
    const made = opened.store.tokens.create({
      name: `test-${scope}`,
      scope,
      kind: "named",
      lifetimeMs: null,
    }).token;
    tokens.set(scope, made);
    return made;
  };
  return {
    server,
    store: opened.store,
    control,
    builds,
    ingress,
    clock: opened.clock,
    entries,
    metrics,
    dataDir: opened.dataDir,
    token,
    request: (request) =>
      server.inject({
        ...request,
        headers: { authorization: `Bearer ${token("admin")}`, ...request.headers },
      }),
    listen: () => server.listen({ host: "127.0.0.1", port: 0 }),
    async [Symbol.asyncDispose]() {
      await server.close();
      await webhooks[Symbol.asyncDispose]();
      await opened[Symbol.asyncDispose]();
    },
  };
}

export function condition(
  type: Condition["type"],
  status: Condition["status"],
  generation: number,
  rest: { reason?: string; message?: string } = {},
): Condition {
  return {
    type,
    status,
    reason: rest.reason ?? type,
    message: rest.message ?? "",
    lastTransitionTime: "2030-01-01T00:00:00.000Z",
    observedGeneration: generation,
  };
}

/** Returns a status like those that the reconciler writes. By default the App is Ready for `generation`. */
export function appStatus(generation: number, rest: Partial<AppStatus> = {}): AppStatus {
  return {
    phase: "running",
    observedGeneration: generation,
    conditions: [condition("Ready", "True", generation, { message: "running and healthy" })],
    revisions: { attempted: 1, applied: 1, stable: 1 },
    containers: [],
    url: "http://127.0.0.1:20000",
    nextRetryAt: null,
    restarts: 0,
    memory: emptyReconcileState,
    ...rest,
  };
}

/** Creates an app through the store. */
export function putApp(
  store: Store,
  name: string,
  spec: AppSpec = { image: "bb:1", port: 80 },
  manager = "api",
): { uid: string; generation: number } {
  const { resource } = store.apply({
    kind: "App",
    name,
    manager,
    actor: { name: "user:admin", scope: "admin" },
    mode: "replace",
    spec,
    declares: manager.startsWith("file:"),
  });
  return { uid: resource.metadata.uid, generation: resource.metadata.generation };
}

/** Returns the message of an error response, which must have no other field. */
export function readErrorBody(response: LightMyRequestResponse): string {
  const body: unknown = response.json();
  if (typeof body !== "object" || body === null) throw new Error("the body is not an object");
  const keys = Object.keys(body);
  if (keys.length !== 1 || !("error" in body) || typeof body.error !== "string") {
    throw new Error(`an error body with ${keys.join(", ")}`);
  }
  return body.error;
}
