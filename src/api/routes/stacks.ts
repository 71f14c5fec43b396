import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { timestamp } from "../../base/clock.ts";
import { ConflictError, NotFoundError } from "../../base/errors.ts";
import { RESTARTED_AT_ANNOTATION, type Resource } from "../../resources/resource.ts";
import { StackDetails, StackList, StackPlan, StackWriteView } from "../../resources/wire/stacks.ts";
import { closed } from "../../resources/wire/wire-schema.ts";
import type { ApplyIntent } from "../../store/store.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { applyTogether } from "../apply-together.ts";
import { createRequestSignal, getActor, parseWaitTimeoutMs } from "../request-parameters.ts";
import {
  EmptyBody,
  NameParams,
  NoQuery,
  responses,
  WriteQueryParams,
  writeQueryFields,
} from "../route-schemas.ts";
import { assertSecretUnused } from "../secret-users.ts";
import { planView } from "../views/plans.ts";
import { groupByStack, type StackMembers, stackDetails, stackItem } from "../views/stack.ts";
import { waitForApp } from "../wait-for-app.ts";

const DeleteQuery = Type.Object(
  {
    ...writeQueryFields,
    delete_volumes: Type.Optional(
      Type.Boolean({
        description:
          "true: the named volumes, folders and Secrets of the stack are deleted too; default: they are kept",
      }),
    ),
  },
  closed,
);

type Change = Pick<ApplyIntent<"App">, "spec" | "annotations">;

/**
 * Routes for stacks: groups of apps. An action such as `start` writes the desired state of all apps of the stack, or of
 * none.
 */
export function stackRoutes(api: Api, context: ApiContext): void {
  const { store, clock, config } = context;
  const tags = ["stacks"];
  const listStacks = () => groupByStack([...store.list("App"), ...store.list("Secret")]);
  const show = (name: string) => stackDetails(requireStack(name), config.baseDomain);
  const requireStack = (name: string): StackMembers => {
    const found = listStacks().find((stack) => stack.name === name);
    if (found) return found;
    throw new NotFoundError(
      `there is no stack ${JSON.stringify(name.slice(0, 80))}`,
      "a stack exists as long as an app or a Secret names it in metadata.stack",
    );
  };

  api.get(
    "/api/stacks",
    {
      config: { access: "read" },
      schema: {
        summary: "List stacks, by name",
        tags,
        querystring: NoQuery,
        response: responses({ 200: StackList }),
      },
    },
    async () => {
      const stacks = listStacks().map((stack) => stackItem(stack, config.baseDomain));
      return { stacks, total: stacks.length };
    },
  );

  api.get(
    "/api/stacks/:name",
    {
      config: { access: "read" },
      schema: {
        summary: "Show a stack and its apps",
        tags,
        params: NameParams,
        querystring: NoQuery,
        response: responses({ 200: StackDetails }),
      },
    },
    async (request) => show(request.params.name),
  );

  api.get(
    "/api/stacks/:name/plan",
    {
      config: { access: "read" },
      schema: {
        summary: "Plan the next reconcile of each app of a stack",
        tags,
        params: NameParams,
        querystring: NoQuery,
        response: responses({ 200: StackPlan }),
      },
    },
    async (request, reply) => {
      const { name, apps } = requireStack(request.params.name);
      const signal = createRequestSignal(reply, context.closing);
      const plans = await Promise.all(
        apps.map(({ metadata }) => context.control.planApp(metadata.name, undefined, signal)),
      );
      return { stack: name, plans: plans.map(planView) };
    },
  );

  const addVerb = (
    verb: "start" | "stop" | "restart",
    summary: string,
    /** Returns the change that the action makes to an app; undefined if there is nothing to change. */
    change: (app: Resource<"App">) => Change | undefined,
  ): void => {
    api.post(
      `/api/stacks/:name/${verb}`,
      {
        config: { access: "write" },
        schema: {
          summary,
          tags,
          params: NameParams,
          body: EmptyBody,
          querystring: WriteQueryParams,
          response: responses({ 200: StackWriteView, 202: StackWriteView }),
        },
      },
      async (request, reply) => {
        const { name } = request.params;
        const apps = listLivingApps(requireStack(name));
        const force = request.query.force === true;
        const actor = getActor(request);
        const intents = apps.flatMap((app): ApplyIntent[] => {
          const wanted = change(app);
          if (!wanted) return [];
          const { name: appName } = app.metadata;
          const base = { kind: "App", name: appName, manager: "api", mode: "merge" } as const;
          return [{ ...base, ...wanted, actor, force, updateOnly: true }];
        });
        const isDryRun = request.query.dry_run === true;
        const { results } = applyTogether(context, intents, { isDryRun });
        const changed = results.filter(({ changes }) => changes.length > 0);
        if (!isDryRun)
          for (const { resource } of changed) context.control.wake("App", resource.metadata.name);
        const targets = results.map(({ resource }) => resource.metadata);
        await respond(request, reply, isDryRun ? [] : targets, "ready");
        const names = changed.map(({ resource }) => `app/${resource.metadata.name}`);
        return { dry_run: isDryRun, stack: show(name), changed: names };
      },
    );
  };

  addVerb("start", "Start the stopped apps of a stack", (app) =>
    app.spec.running === false ? { spec: { running: true } } : undefined,
  );
  addVerb("stop", "Stop the running apps of a stack", (app) =>
    app.spec.running === false ? undefined : { spec: { running: false } },
  );
  addVerb("restart", "Replace the containers of the running apps of a stack", (app) =>
    app.spec.running === false || app.spec.suspend === true
      ? undefined
      : {
          spec: {},
          annotations: { [RESTARTED_AT_ANNOTATION]: timestamp(clock.now()) },
        },
  );

  api.delete(
    "/api/stacks/:name",
    {
      config: { access: "write" },
      schema: {
        summary: "Delete all apps of a stack",
        description:
          "All apps are deleted, or none if one may not be. Named volumes, folders and the Secrets of the stack are kept unless delete_volumes=true.",
        tags,
        params: NameParams,
        querystring: DeleteQuery,
        response: responses({ 200: StackWriteView, 202: StackWriteView }),
      },
    },
    async (request, reply) => {
      const { name } = request.params;
      const { dry_run, force, delete_volumes } = request.query;
      const stack = requireStack(name);
      const before = stackDetails(stack, config.baseDomain);
      const deleteVolumes = delete_volumes === true;
      const secrets = deleteVolumes ? stack.secrets : [];
      assertSecretsUnusedElsewhere(context, stack, secrets, force === true);
      const intent = { actor: getActor(request), manager: "api", force: force === true };
      const deleteAll = () => {
        for (const { metadata } of stack.apps)
          store.delete("App", metadata.name, { ...intent, deleteVolumes });
        for (const { metadata } of secrets) store.delete("Secret", metadata.name, intent);
      };
      const isDryRun = dry_run === true;
      if (isDryRun) store.preview(deleteAll);
      else {
        store.batch(deleteAll);
        for (const { metadata } of stack.apps) context.control.wake("App", metadata.name);
      }
      const targets = isDryRun ? [] : stack.apps.map(({ metadata }) => metadata);
      await respond(request, reply, targets, "deleted");
      const changed = [
        ...stack.apps.map(({ metadata }) => `app/${metadata.name}`),
        ...secrets.map(({ metadata }) => `secret/${metadata.name}`),
      ];
      const now = listStacks().find((one) => one.name === name);
      const shown = now
        ? stackDetails(now, config.baseDomain)
        : {
            ...before,
            status: "deleting" as const,
            message: "deleted",
            members: [],
            apps: 0,
            ready: 0,
            urls: [],
          };
      return { dry_run: isDryRun, stack: shown, changed };
    },
  );

  /** Waits for the apps if the request asks for that, and sets the status of the response. */
  async function respond(
    request: FastifyRequest<{ Querystring: { wait?: boolean; timeout?: string } }>,
    reply: FastifyReply,
    targets: readonly Resource["metadata"][],
    until: "ready" | "deleted",
  ): Promise<void> {
    reply.code(targets.length === 0 ? 200 : 202);
    if (request.query.wait !== true || targets.length === 0) return;
    const signal = createRequestSignal(reply, context.closing);
    const timeoutMs = parseWaitTimeoutMs(request.query.timeout);
    const outcomes = await Promise.all(
      targets.map(async ({ name, uid, generation }) => ({
        name,
        ...(await waitForApp(context, { name, uid, generation, until }, timeoutMs, signal)),
      })),
    );
    const failed = outcomes.find((outcome) => outcome.type === "failed");
    if (failed?.type === "failed")
      throw new ConflictError("wrong_state", `app "${failed.name}" has failed: ${failed.message}`, {
        hint: `see GET /api/apps/${failed.name} and its logs`,
      });
    const isLate = outcomes.some(({ type }) => type === "timed-out");
    if (isLate) reply.header("x-berth-wait", "timed-out");
    else reply.code(200);
  }
}

function listLivingApps({ apps }: StackMembers): readonly Resource<"App">[] {
  return apps.filter(({ metadata }) => metadata.deletionTimestamp === null);
}

/** Refuses the deletion of Secrets that apps or models outside of the stack use. */
function assertSecretsUnusedElsewhere(
  { store }: Pick<ApiContext, "store">,
  stack: StackMembers,
  secrets: readonly Resource<"Secret">[],
  force: boolean,
): void {
  if (force) return;
  const own = new Set(stack.apps.map(({ metadata }) => metadata.name));
  for (const { metadata } of secrets)
    assertSecretUnused(store, metadata.name, (app) => !own.has(app));
}
