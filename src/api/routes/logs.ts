import { Type } from "typebox";
import { BerthError, isAbortError } from "../../base/errors.ts";
import { durationPattern, parseDuration } from "../../base/units.ts";
import type { AppLogEntry, AppLogLine, AppLogOptions } from "../../controller/port.ts";
import { AppLogs } from "../../resources/wire/apps.ts";
import { closed } from "../../resources/wire/wire-schema.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { requireApp } from "../app-writes.ts";
import { toErrorResponse } from "../error-response.ts";
import { EventStream, type StreamSlots } from "../event-stream.ts";
import { collectLines, sendText } from "../line-responses.ts";
import { createRequestSignal } from "../request-parameters.ts";
import { NameParams, responses, unserialized } from "../route-schemas.ts";

const TAIL_DEFAULT = 100;
const TAIL_MAX = 10_000;

/** Matches a duration, Unix seconds, or the beginning of a date and time, as `since` accepts them. */
const sincePattern = `${durationPattern}|^[0-9]{1,12}(\\.[0-9]{1,9})?$|^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)?$`;

const LogsQuery = Type.Object(
  {
    tail: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: TAIL_MAX,
        description: "number of lines from the end; default: 100",
      }),
    ),
    follow: Type.Optional(Type.Boolean({ description: "server-sent events, one for each line" })),
    since: Type.Optional(
      Type.String({
        pattern: sincePattern,
        maxLength: 64,
        description: "a duration back from now (10m), an RFC 3339 time or Unix seconds",
      }),
    ),
  },
  closed,
);

export function logRoutes(api: Api, context: ApiContext, slots: StreamSlots): void {
  const { control, clock } = context;

  api.get(
    "/api/apps/:name/logs",
    {
      config: { access: "read", isStream: true },
      schema: {
        summary: "The log lines of all containers of an app, oldest first",
        description:
          "Responds with JSON, with raw text for Accept: text/plain, or with server-sent events named `line` for follow=true. The event `skipped`, with the members skipped and container, reports how many lines a reader has missed because it was too slow.",
        tags: ["apps"],
        params: NameParams,
        querystring: LogsQuery,
        produces: ["application/json", "text/plain", "text/event-stream"],
        response: responses({ 200: unserialized(AppLogs) }),
      },
    },
    async (request, reply) => {
      const { name } = request.params;
      const { tail = TAIL_DEFAULT, follow, since } = request.query;
      requireApp(context, name);
      const accept = request.headers.accept ?? "";
      const options: AppLogOptions = {
        tail,
        follow: follow === true || accept.startsWith("text/event-stream"),
        ...(since === undefined ? {} : { sinceMs: parseSince(since, clock.now()) }),
      };
      const signal = createRequestSignal(reply, context.closing);
      if (options.follow) {
        const stream = new EventStream(clock, context.closing, slots.acquire());
        const ended = AbortSignal.any([signal, stream.signal]);
        void streamLines(stream, control.appLogs(name, options, ended), request.id, context);
        return stream.open(reply);
      }
      const lines = onlyLines(control.appLogs(name, options, signal));
      if (accept.startsWith("text/plain")) return sendText(reply, mapToMessages(lines));
      const { kept, isCut } = await collectLines(lines, (line) => line.message);
      if (isCut) reply.header("x-berth-truncated", "true");
      return { name, lines: kept };
    },
  );
}

/** Parses a time as epoch milliseconds. Throws BerthError `invalid_request`. */
export function parseSince(text: string, nowMs: number): number {
  if (new RegExp(durationPattern).test(text)) return nowMs - parseDuration(text);
  if (/^[0-9]{1,12}(\.[0-9]{1,9})?$/.test(text)) return Math.round(Number(text) * 1000);
  const time = /^\d{4}-\d{2}-\d{2}T/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(time)) {
    throw new BerthError("invalid_request", `since: ${JSON.stringify(text)} is not a time`, {
      hint: "write a time as 10m, 2026-01-31T12:00:00Z or Unix seconds",
    });
  }
  return time;
}

async function streamLines(
  stream: EventStream,
  lines: AsyncIterable<AppLogEntry>,
  requestId: string,
  context: ApiContext,
): Promise<void> {
  try {
    for await (const line of lines) {
      if (stream.signal.aborted) return;
      const event = "skipped" in line ? "skipped" : "line";
      await stream.sendWithBackpressure({ event, data: JSON.stringify(line) });
    }
  } catch (error) {
    if (stream.signal.aborted || isAbortError(error)) return;
    const { message, unexpected } = toErrorResponse(error, requestId);
    if (unexpected) context.logger.error({ err: error, requestId }, "a log stream failed");
    stream.send({ event: "error", data: JSON.stringify({ error: message }) });
  } finally {
    stream.end();
  }
}

/** Yields the lines without the entries about skipped lines, which only a followed log has. */
async function* onlyLines(entries: AsyncIterable<AppLogEntry>): AsyncGenerator<AppLogLine> {
  for await (const entry of entries) if (!("skipped" in entry)) yield entry;
}

async function* mapToMessages(lines: AsyncIterable<AppLogLine>): AsyncGenerator<string> {
  for await (const { message } of lines) yield message;
}
