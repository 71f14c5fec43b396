import { timestamp } from "../../base/clock.ts";
import { ConflictError } from "../../base/errors.ts";
import {
  RESTARTED_AT_ANNOTATION,
  RETRIED_AT_ANNOTATION,
  type Resource,
} from "../../resources/resource.ts";
import type { Api, ApiContext } from "../api-context.ts";
import {
  type AppWriteRequest,
  requireApp,
  respondToWrite,
  type WriteQuery,
  writeApp,
} from "../app-writes.ts";
import { getActor, parseWaitTimeoutMs } from "../request-parameters.ts";
import { appWriteResponses, EmptyBody, NameParams, WriteQueryParams } from "../route-schemas.ts";

/** Routes for actions on one app. Each action writes desired state. */
export function appActionRoutes(api: Api, context: ApiContext): void {
  const { clock } = context;

  const addAction = (
    verb: "start" | "stop" | "restart" | "retry",
    summary: string,
    /** Returns the change that the action makes; undefined if there is nothing to change. */
    change: (
      app: Resource<"App">,
    ) => Pick<AppWriteRequest["intent"], "spec" | "annotations"> | undefined,
  ): void => {
    api.post(
      `/api/apps/:name/${verb}`,
      {
        config: { access: "write" },
        schema: {
          summary,
          tags: ["apps"],
          params: NameParams,
          body: EmptyBody,
          querystring: WriteQueryParams,
          response: appWriteResponses,
        },
      },
      async (request, reply) => {
        const { name } = request.params;
        const app = requireApp(context, name);
        assertNotDeleting(app);
        const wanted = change(app);
        if (wanted === undefined && request.query.dry_run !== true) {
          reply.header("x-berth-changed", "false");
          return respondUnchanged(context, reply, app, request.query);
        }
        const write = {
          intent: {
            kind: "App",
            name,
            manager: "api",
            actor: getActor(request),
            mode: "merge",
            spec: wanted?.spec ?? {},
            ...(wanted?.annotations === undefined ? {} : { annotations: wanted.annotations }),
            force: request.query.force === true,
            updateOnly: true,
          },
          wouldDo: wanted === undefined ? `leave app "${name}" unchanged` : `${verb} app "${name}"`,
          status: 202,
          wake: true,
        } as const;
        return writeApp(context, request, reply, write, request.query);
      },
    );
  };

  addAction("start", "Start a stopped app; 200 if it is not stopped", (app) =>
    app.spec.running === false ? { spec: { running: true } } : undefined,
  );
  addAction("stop", "Stop a running app; 200 if it is stopped", (app) =>
    app.spec.running === false ? undefined : { spec: { running: false } },
  );
  addAction("restart", "Replace the containers of an app", (app) => {
    const { name } = app.metadata;
    if (app.spec.running === false) {
      throw new ConflictError("wrong_state", `app "${name}" is stopped`, {
        hint: `start it with POST /api/apps/${name}/start`,
      });
    }
    if (app.spec.suspend === true) {
      throw new ConflictError(
        "wrong_state",
        `app "${name}" is suspended: Berth does not change it`,
        {
          hint: "set suspend to false first",
        },
      );
    }
    return { spec: {}, annotations: { [RESTARTED_AT_ANNOTATION]: timestamp(clock.now()) } };
  });
  addAction("retry", "Try a stalled or reverted app again, now", () => ({
    spec: {},
    annotations: { [RETRIED_AT_ANNOTATION]: timestamp(clock.now()) },
  }));
}

/**
 * Responds to an action that changes nothing: 200 immediately or, if the request asks for a wait, as `respondToWrite`
 * does.
 */
async function respondUnchanged(
  context: ApiContext,
  reply: Parameters<typeof respondToWrite>[1],
  app: Resource<"App">,
  query: WriteQuery,
) {
  const timeoutMs = parseWaitTimeoutMs(query.timeout);
  const details = await respondToWrite(context, reply, app, 202, query.wait ? timeoutMs : null);
  if (query.wait !== true) reply.code(200);
  return details;
}

function assertNotDeleting(app: Resource<"App">): void {
  if (app.metadata.deletionTimestamp === null) return;
  throw new ConflictError("conflict", `app "${app.metadata.name}" is being deleted`);
}
