import type { FastifyReply, FastifyRequest } from "fastify";
import { ConflictError, NotFoundError } from "../base/errors.ts";
import type { PlannedResource } from "../controller/port.ts";
import { isDeletedWithData, listDataPlaces, listOtherUsers } from "../resources/app-data.ts";
import type { Resource } from "../resources/resource.ts";
import type { AppDetails, DryRunReport } from "../resources/wire/apps.ts";
import type { ApplyIntent, ApplyResult } from "../store/store.ts";
import type { ApiContext } from "./api-context.ts";
import { createAppAdmission } from "./app-admission.ts";
import { createRequestSignal, parseWaitTimeoutMs } from "./request-parameters.ts";
import { appDetails } from "./views/app.ts";
import { fieldChangeView, planView } from "./views/plans.ts";
import { waitForApp } from "./wait-for-app.ts";

const EVENTS_SHOWN = 20;

/** Returns the app with this name. Throws NotFoundError if there is none. */
export function requireApp(context: ApiContext, name: string): Resource<"App"> {
  const app = context.store.get("App", name);
  if (!app) throw appNotFoundError(name);
  return app;
}

export function appNotFoundError(name: string): NotFoundError {
  const shown = name.length > 80 ? `${name.slice(0, 80)}...` : name;
  return new NotFoundError(`there is no app ${JSON.stringify(shown)}`);
}

export function getAppDetails(context: ApiContext, app: Resource<"App">): AppDetails {
  const { name } = app.metadata;
  const events = context.store.events.list({ kind: "App", name, limit: EVENTS_SHOWN });
  const [build] = context.store.builds.list({ app: name, limit: 1 });
  // Other apps are read only if the app shares data with them.
  const hasShared = listDataPlaces(app.spec).some(({ shared }) => shared);
  const apps = hasShared ? context.store.list("App") : [];
  return appDetails(app, context.config.baseDomain, { events, build, apps });
}

export interface WriteQuery {
  readonly wait?: boolean;
  readonly timeout?: string;
  readonly dry_run?: boolean;
  readonly force?: boolean;
}

/** A write of one app's desired state, with the text that describes the write in a dry run. */
export interface AppWriteRequest {
  readonly intent: ApplyIntent<"App">;
  /** Completes the message "would ..." of a dry run, such as "deploy image x". */
  readonly wouldDo: string;
  /** The HTTP status: 201 for a new app, otherwise 202. */
  readonly status: 201 | 202;
  /** If true, the app is reconciled before all others, because a user waits for it. */
  readonly wake?: boolean;
}

/**
 * Writes an app for a route, or only plans the write if the request is a dry run. Waits for the app if the request asks
 * for that, and responds. Throws what `Store.apply` throws, ConflictError `conflict` if another App has one of the
 * app's domains, and ConflictError `wrong_state` if the app fails during the wait.
 */
export async function writeApp(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  write: AppWriteRequest,
  query: WriteQuery,
): Promise<AppDetails | DryRunReport> {
  const timeoutMs = parseWaitTimeoutMs(query.timeout);
  const { name } = write.intent;
  const admit = createAppAdmission(context);
  if (query.dry_run === true) {
    const result = context.store.apply({ ...write.intent, dryRun: true }, admit);
    return planAppWrite(context, reply, { ...result, wouldDo: write.wouldDo });
  }
  const result = context.store.apply(write.intent, admit);
  const isChanged = setChangedHeader(reply, result);
  if (write.wake === true && isChanged) context.control.wake("App", name);
  const app = context.store.get("App", name) ?? result.resource;
  // If the client waits for the app, status 201 tells the client that this request created the app. All routes that
  // create apps follow this rule.
  const status = result.created && query.wait === true ? 201 : write.status;
  return respondToWrite(context, reply, app, status, query.wait ? timeoutMs : null);
}

/** Responds to a dry run of a write to an app. `planned` has the other resources that the request would write. */
export async function planAppWrite(
  context: ApiContext,
  reply: FastifyReply,
  write: Pick<ApplyResult<"App">, "resource" | "changes"> & Pick<AppWriteRequest, "wouldDo">,
  planned: readonly PlannedResource[] = [],
): Promise<DryRunReport> {
  const { spec, metadata } = write.resource;
  const { name, annotations } = metadata;
  const signal = createRequestSignal(reply, context.closing);
  const plan = await context.control.planApp(name, spec, signal, annotations, planned);
  reply.code(200);
  return {
    dry_run: true,
    kind: "App",
    name,
    message: `would ${write.wouldDo}`,
    changes: write.changes.map((change) => fieldChangeView(change)),
    plan: planView(plan),
  };
}

/**
 * Responds to a completed write. If `waitMs` is null, responds immediately; otherwise waits as
 * `waitUntilReady` describes.
 */
export async function respondToWrite(
  context: ApiContext,
  reply: FastifyReply,
  written: Resource<"App">,
  status: 201 | 202,
  waitMs: number | null,
): Promise<AppDetails> {
  const { name } = written.metadata;
  if (waitMs === null) {
    reply.code(status);
    return getAppDetails(context, written);
  }
  await waitUntilReady(context, reply, written, written.metadata.generation, waitMs, status);
  return getAppDetails(context, context.store.get("App", name) ?? written);
}

/**
 * Waits until the app is Ready. Sets the status of the response: 201 for a created app and 200 for others, or 202 if
 * the app is not Ready after `waitMs`. Throws ConflictError if the app fails or is deleted.
 */
export async function waitUntilReady(
  context: ApiContext,
  reply: FastifyReply,
  app: Resource<"App">,
  generation: number,
  waitMs: number,
  status: 200 | 201 | 202,
): Promise<void> {
  const { name, uid } = app.metadata;
  const signal = createRequestSignal(reply, context.closing);
  const target = { name, uid, generation, until: "ready" } as const;
  const outcome = await waitForApp(context, target, waitMs, signal);
  switch (outcome.type) {
    case "ready":
      reply.code(status === 201 ? 201 : 200);
      return;
    case "timed-out":
      reply.code(202).header("x-berth-wait", "timed-out");
      return;
    case "failed":
      throw new ConflictError("wrong_state", `app "${name}" has failed: ${outcome.message}`, {
        hint: `see GET /api/apps/${name} and its logs`,
      });
    case "deleted":
      throw new ConflictError("wrong_state", `app "${name}" was deleted in the meantime`);
  }
}

/**
 * Returns true if the write created or changed the resource. Otherwise sets the header `x-berth-changed: false` on the
 * response, because the response body has no field for that.
 */
export function setChangedHeader(
  reply: FastifyReply,
  result: Pick<ApplyResult, "created" | "changes">,
): boolean {
  const isChanged = result.created || result.changes.length > 0;
  if (!isChanged) reply.header("x-berth-changed", "false");
  return isChanged;
}

/** Responds to the dry run of a deletion. `apps` are all apps of the server, some of which may share data with `app`. */
export function createDeleteDryRun(
  app: Resource<"App">,
  apps: readonly Resource<"App">[],
  deletesVolumes: boolean,
): DryRunReport {
  const { name } = app.metadata;
  const containers = app.status?.containers.length ?? 0;
  const data = describeDataOfDeleted(app, apps, deletesVolumes);
  return {
    dry_run: true,
    kind: "App",
    name,
    message: `would delete app "${name}" with its ${pluralize(containers, "container")}${data}`,
    changes: [],
    plan: null,
  };
}

function describeDataOfDeleted(
  app: Resource<"App">,
  apps: readonly Resource<"App">[],
  deletesVolumes: boolean,
): string {
  const remaining = apps.filter((other) => !isDeletedWithData(other));
  const places = listDataPlaces(app.spec).map((place) => ({
    ...place,
    users: listOtherUsers(app, place, remaining),
  }));
  const own = places.filter(({ users }) => users.length === 0);
  const fate = deletesVolumes ? "delete" : "keep";
  const counts = (["volume", "folder"] as const).flatMap((type) => {
    const count = own.filter((place) => place.type === type).length;
    return count === 0 ? [] : [pluralize(count, type === "volume" ? "named volume" : "folder")];
  });
  const kept = places
    .filter(({ users }) => users.length > 0)
    .map(
      ({ type, name: place, users }) =>
        `, and keep the ${type} "${place}", which ${users.join(", ")} ${users.length === 1 ? "uses" : "use"} too`,
    );
  return `${counts.length === 0 ? "" : ` and ${fate} its ${counts.join(" and ")}`}${kept.join("")}`;
}

function pluralize(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
