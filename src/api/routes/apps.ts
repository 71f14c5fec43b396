import { Type } from "typebox";
import { BerthError } from "../../base/errors.ts";
import type { AppSpec } from "../../resources/app-spec.ts";
import { appPhases } from "../../resources/app-status.ts";
import { toStoredLabels } from "../../resources/stack.ts";
import { validatePartialSpec } from "../../resources/validate-manifest.ts";
import { AppDetails, AppList, CreateAppBody, PatchAppBody } from "../../resources/wire/apps.ts";
import { closed, OneOf } from "../../resources/wire/wire-schema.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { AppListCache } from "../app-list-cache.ts";
import {
  appNotFoundError,
  createDeleteDryRun,
  getAppDetails,
  requireApp,
  waitUntilReady,
  writeApp,
} from "../app-writes.ts";
import { withFlatIssuePaths } from "../flat-issue-paths.ts";
import { createRequestSignal, getActor, parseWaitTimeoutMs } from "../request-parameters.ts";
import {
  AppWriteResponse,
  appWriteResponses,
  NameParams,
  responses,
  unserialized,
  WriteQueryParams,
  writeQueryFields,
} from "../route-schemas.ts";
import { assertNoNewServerFolder } from "../server-paths.ts";
import { waitForApp } from "../wait-for-app.ts";

const ListQuery = Type.Object(
  {
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 10_000, description: "default: every app" }),
    ),
    offset: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
    status: Type.Optional(OneOf(appPhases)),
    stack: Type.Optional(
      Type.String({ maxLength: 63, description: "only the apps of this stack" }),
    ),
  },
  closed,
);

const DetailsQuery = Type.Object(
  {
    wait: Type.Optional(
      Type.Unsafe<"true" | "false" | "deleted">({
        type: "string",
        enum: ["true", "false", "deleted"],
        description:
          "true: respond when the app is Ready or has failed (409); deleted: respond 404 when the app is gone",
      }),
    ),
    timeout: writeQueryFields.timeout,
    generation: Type.Optional(
      Type.Integer({ minimum: 1, description: "the generation to wait for; default: the newest" }),
    ),
  },
  closed,
);

const DeleteQuery = Type.Object(
  {
    ...writeQueryFields,
    delete_volumes: Type.Optional(
      Type.Boolean({
        description:
          "true: the named volumes and folders are deleted too, shared ones with the last app that uses them; default: they are kept",
      }),
    ),
  },
  closed,
);

export function appRoutes(api: Api, context: ApiContext): void {
  const { store } = context;
  const cache = new AppListCache(store, context.config.baseDomain);

  api.get(
    "/api/apps",
    {
      config: { access: "read" },
      schema: {
        summary: "List apps, by name",
        tags: ["apps"],
        querystring: ListQuery,
        response: responses({ 200: unserialized(AppList) }),
      },
    },
    async (request, reply) => {
      reply.type("application/json; charset=utf-8");
      const list = cache.getResponse(request.query, (apps) =>
        String(reply.serializeInput(apps, "200")),
      );
      return reply.send(list);
    },
  );

  api.post(
    "/api/apps",
    {
      config: { access: "write" },
      schema: {
        summary: "Create an app",
        description:
          "Accepts every field of an App's spec in addition to name, image, port, domain and env. Without image and source the app is pending until a deploy gives it one. If the app exists, the request is refused unless it has force; with force, the new spec replaces the app's spec.",
        tags: ["apps"],
        body: CreateAppBody,
        querystring: WriteQueryParams,
        response: responses({ 200: AppWriteResponse, 201: AppDetails, 202: AppDetails }),
      },
    },
    async (request, reply) => {
      const { name, stack, labels, ...spec } = request.body;
      const force = request.query.force === true;
      assertNoNewServerFolder(spec, undefined);
      const intent = {
        kind: "App",
        name,
        manager: "api",
        actor: getActor(request),
        mode: "replace",
        spec: spec satisfies AppSpec,
        labels: toStoredLabels({ stack, labels }),
        createOnly: !force,
        takeOver: force,
        force,
      } as const;
      const isNew = store.get("App", name) === undefined;
      const wouldDo = `${isNew ? "create" : "take over"} app "${name}"`;
      const status = isNew ? 201 : 202;
      return withFlatIssuePaths(() =>
        writeApp(context, request, reply, { intent, wouldDo, status }, request.query),
      );
    },
  );

  api.get(
    "/api/apps/:name",
    {
      config: { access: "read" },
      schema: {
        summary: "Show one app",
        tags: ["apps"],
        params: NameParams,
        querystring: DetailsQuery,
        response: responses({ 200: AppDetails, 202: AppDetails }),
      },
    },
    async (request, reply) => {
      const { name } = request.params;
      const { wait, timeout, generation } = request.query;
      const app = requireApp(context, name);
      if (wait === undefined || wait === "false") return getAppDetails(context, app);
      const wanted = generation ?? app.metadata.generation;
      const timeoutMs = parseWaitTimeoutMs(timeout);
      if (wait === "true") {
        await waitUntilReady(context, reply, app, wanted, timeoutMs, 200);
      } else {
        const signal = createRequestSignal(reply, context.closing);
        const target = {
          name,
          uid: app.metadata.uid,
          generation: wanted,
          until: "deleted",
        } as const;
        const outcome = await waitForApp(context, target, timeoutMs, signal);
        if (outcome.type === "deleted") throw appNotFoundError(name);
        reply.code(202).header("x-berth-wait", "timed-out");
      }
      return getAppDetails(context, requireApp(context, name));
    },
  );

  api.patch(
    "/api/apps/:name",
    {
      config: { access: "write" },
      schema: {
        summary: "Change fields of an app's spec",
        description:
          "A merge patch (RFC 7396): fields that are left out keep their values, null removes a field. Changing a field that a spec file owns returns 409 unless forced.",
        tags: ["apps"],
        params: NameParams,
        body: PatchAppBody,
        querystring: WriteQueryParams,
        response: appWriteResponses,
      },
    },
    async (request, reply) => {
      const { name } = request.params;
      const stored = requireApp(context, name);
      const { labels, ...fields } = request.body;
      assertNoNewServerFolder(fields, stored);
      const intent = {
        kind: "App",
        name,
        manager: "api",
        actor: getActor(request),
        mode: "merge",
        spec: await withFlatIssuePaths(() => validatePartialSpec("App", fields)),
        ...(labels === undefined ? {} : { labels: parseLabels(labels) }),
        force: request.query.force === true,
        updateOnly: true,
      } as const;
      const wouldDo = `change app "${name}"`;
      return withFlatIssuePaths(() =>
        writeApp(context, request, reply, { intent, wouldDo, status: 202 }, request.query),
      );
    },
  );

  api.delete(
    "/api/apps/:name",
    {
      config: { access: "write" },
      schema: {
        summary: "Delete an app",
        description: "Named volumes and folders are kept unless delete_volumes=true.",
        tags: ["apps"],
        params: NameParams,
        querystring: DeleteQuery,
        response: appWriteResponses,
      },
    },
    async (request, reply) => {
      const { name } = request.params;
      const { wait, timeout, force, dry_run, delete_volumes } = request.query;
      const timeoutMs = parseWaitTimeoutMs(timeout);
      const app = requireApp(context, name);
      const before = getAppDetails(context, app);
      const intent = {
        actor: getActor(request),
        manager: "api",
        force: force === true,
        deleteVolumes: delete_volumes === true,
      };
      if (dry_run === true) {
        store.delete("App", name, { ...intent, dryRun: true });
        return createDeleteDryRun(app, store.list("App"), delete_volumes === true);
      }
      store.delete("App", name, intent);
      context.control.wake("App", name);
      const details = () => {
        const now = store.get("App", name);
        return now?.metadata.uid === before.id
          ? getAppDetails(context, now)
          : { ...before, status: "deleting" as const, ready: false, message: "deleted" };
      };
      if (wait !== true) {
        reply.code(202);
        return details();
      }
      const { uid, generation } = app.metadata;
      const target = { name, uid, generation, until: "deleted" } as const;
      const signal = createRequestSignal(reply, context.closing);
      const outcome = await waitForApp(context, target, timeoutMs, signal);
      if (outcome.type !== "deleted") reply.code(202).header("x-berth-wait", "timed-out");
      return details();
    },
  );
}

function parseLabels(labels: unknown): Record<string, string | null> {
  const entries = typeof labels === "object" && labels !== null ? Object.entries(labels) : null;
  const isGood = entries?.every(([, value]) => value === null || typeof value === "string");
  if (!entries || !isGood || Array.isArray(labels)) {
    throw new BerthError("invalid_request", "labels: expected an object of names to text or null");
  }
  return Object.fromEntries(
    entries.map(([key, value]) => [key, value === null ? null : String(value)]),
  );
}
