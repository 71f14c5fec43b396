import { type Static, Type } from "typebox";
import { ConflictError, isAbortError, NotFoundError } from "../../base/errors.ts";
import { BuildList, BuildLogView, BuildView } from "../../resources/wire/builds.ts";
import { closed } from "../../resources/wire/wire-schema.ts";
import type { BuildRecord } from "../../store/store.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { requireApp } from "../app-writes.ts";
import { toErrorResponse } from "../error-response.ts";
import { EventStream, type StreamSlots } from "../event-stream.ts";
import { collectLines, sendText } from "../line-responses.ts";
import { createRequestSignal } from "../request-parameters.ts";
import {
  EmptyBody,
  LimitField,
  NameParams,
  NoQuery,
  responses,
  unserialized,
} from "../route-schemas.ts";
import { buildView } from "../views/builds.ts";

const ListQuery = Type.Object({ limit: LimitField }, closed);
const BuildParams = Type.Object({ name: Type.String(), id: Type.Integer({ minimum: 1 }) }, closed);
const LogQuery = Type.Object(
  {
    follow: Type.Optional(
      Type.Boolean({
        description:
          "server-sent events: `line` for each line of the log, then `end`, whose data is the build",
      }),
    ),
  },
  closed,
);
/**
 * The maximum number of builds in one response. It is greater than the number of builds that Berth keeps for an app.
 */
const BUILDS_MAX = 1000;

/** Routes for builds and their logs. */
export function buildRoutes(api: Api, context: ApiContext, slots: StreamSlots): void {
  const { store, builds } = context;
  const tags = ["builds"];

  api.get(
    "/api/apps/:name/builds",
    {
      config: { access: "read" },
      schema: {
        summary: "The image builds of an app, newest first",
        tags,
        params: NameParams,
        querystring: ListQuery,
        response: responses({ 200: BuildList }),
      },
    },
    async (request) => {
      const { name } = request.params;
      requireApp(context, name);
      const all = store.builds.list({ app: name, limit: BUILDS_MAX });
      const shown = all.slice(0, request.query.limit ?? all.length);
      return { builds: shown.map((build) => buildView(build)), total: all.length };
    },
  );

  api.get(
    "/api/apps/:name/builds/:id",
    {
      config: { access: "read" },
      schema: {
        summary: "Show one build",
        tags,
        params: BuildParams,
        querystring: NoQuery,
        response: responses({ 200: BuildView }),
      },
    },
    async (request) => buildView(requireBuild(request.params)),
  );

  api.get(
    "/api/apps/:name/builds/:id/log",
    {
      config: { access: "read", isStream: true },
      schema: {
        summary: "The log of a build",
        description:
          "Responds with JSON, with raw text for Accept: text/plain, or with server-sent events until the build ends for follow=true.",
        tags,
        params: BuildParams,
        querystring: LogQuery,
        produces: ["application/json", "text/plain", "text/event-stream"],
        response: responses({ 200: unserialized(BuildLogView) }),
      },
    },
    async (request, reply) => {
      const { id, app } = requireBuild(request.params);
      const accept = request.headers.accept ?? "";
      const signal = createRequestSignal(reply, context.closing);
      if (request.query.follow === true || accept.startsWith("text/event-stream")) {
        const stream = new EventStream(context.clock, context.closing, slots.acquire());
        void follow(stream, id, AbortSignal.any([signal, stream.signal]), request.id);
        return stream.open(reply);
      }
      const lines = builds.log(id, { follow: false }, signal);
      if (accept.startsWith("text/plain")) return sendText(reply, lines);
      const { kept, isCut } = await collectLines(lines, (line) => line);
      if (isCut) reply.header("x-berth-truncated", "true");
      return { id, app, lines: kept };
    },
  );

  api.post(
    "/api/apps/:name/builds/:id/cancel",
    {
      config: { access: "write" },
      schema: {
        summary: "Cancel a queued or running build",
        tags,
        params: BuildParams,
        body: EmptyBody,
        querystring: NoQuery,
        response: responses({ 202: BuildView }),
      },
    },
    async (request, reply) => {
      const build = requireBuild(request.params);
      if (!(await builds.cancel(build.id))) {
        const { state } = requireBuild(request.params);
        throw new ConflictError("wrong_state", `build ${build.id} has ended already: ${state}`);
      }
      reply.code(202);
      return buildView(requireBuild(request.params));
    },
  );

  function requireBuild({ name, id }: Static<typeof BuildParams>): BuildRecord {
    requireApp(context, name);
    const build = Number.isSafeInteger(id) ? store.builds.get(id) : undefined;
    if (build?.app === name) return build;
    const [newest] = store.builds.list({ app: name, limit: 1 });
    throw new NotFoundError(
      `app "${name}" has no build ${id}`,
      newest ? `the newest is ${newest.id}` : "it has none yet",
    );
  }

  async function follow(
    stream: EventStream,
    id: number,
    signal: AbortSignal,
    requestId: string,
  ): Promise<void> {
    try {
      for await (const line of builds.log(id, { follow: true }, signal)) {
        if (stream.signal.aborted) return;
        await stream.sendWithBackpressure({
          event: "line",
          data: JSON.stringify({ message: line }),
        });
      }
      const build = store.builds.get(id);
      if (build) stream.send({ event: "end", data: JSON.stringify(buildView(build)) });
    } catch (error) {
      if (stream.signal.aborted || isAbortError(error)) return;
      const { message, unexpected } = toErrorResponse(error, requestId);
      if (unexpected) context.logger.error({ err: error, requestId }, "a log stream failed");
      stream.send({ event: "error", data: JSON.stringify({ error: message }) });
    } finally {
      stream.end();
    }
  }
}
