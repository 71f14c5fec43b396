import { Type } from "typebox";
import type { Resource } from "../../resources/resource.ts";
import { ModelProgressView, type ModelView } from "../../resources/wire/models.ts";
import { closed } from "../../resources/wire/wire-schema.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { EventStream, type StreamSlots } from "../event-stream.ts";
import { findKnownModel } from "../models/find-model.ts";
import { getModelView } from "../models/list-models.ts";
import { isSettled } from "../models/wait-for-model.ts";
import { NoQuery, responses, unserialized } from "../route-schemas.ts";
import { assistantModelView, catalogModelView, modelProgressView } from "../views/models.ts";

/** The interval of progress events. Four a second are enough for a display. */
const PROGRESS_INTERVAL_MS = 250;

const IdParams = Type.Object({ id: Type.String() }, closed);

export function llmProgressRoutes(api: Api, context: ApiContext, slots: StreamSlots): void {
  const { store, clock } = context;

  api.get(
    "/api/llm/models/:id/progress",
    {
      config: { access: "read", isStream: true },
      schema: {
        summary: "The progress of a model, until it is settled",
        description:
          "Server-sent events: `progress`, at most four times a second, when something has changed; then `end`, whose data is the model, once the model is ready, running, stopped or failed. The event `error` ends the stream of a model that is deleted.",
        tags: ["models"],
        params: IdParams,
        querystring: NoQuery,
        produces: ["text/event-stream"],
        response: responses({ 200: unserialized(ModelProgressView) }),
      },
    },
    async (request, reply) => {
      const found = findKnownModel(context, request.params.id);
      const stream = new EventStream(clock, context.closing, slots.acquire());
      switch (found.type) {
        case "catalog":
          endStream(stream, catalogModelView(found.entry));
          break;
        case "assistant":
          endStream(stream, assistantModelView(found.file));
          break;
        case "resource":
          follow(stream, found.model);
      }
      return stream.open(reply);
    },
  );

  function follow(stream: EventStream, { metadata: { name, uid } }: Resource<"Model">): void {
    const timer: { cancel?: () => void } = {};
    let sent = "";
    let isReading = true;
    const sendProgress = async (data: string) => {
      sent = data;
      isReading = false;
      await stream.sendWithBackpressure({ event: "progress", data });
      isReading = true;
    };
    const sendUpdate = () => {
      const model = store.get("Model", name);
      if (model?.metadata.uid !== uid) {
        const error = `model "${name}" was deleted`;
        stream.send({ event: "error", data: JSON.stringify({ error }) });
        stream.end();
        return;
      }
      const item = getModelView(context, model);
      if (isSettled(model, context.control)) {
        endStream(stream, item, sent);
        return;
      }
      const data = JSON.stringify(modelProgressView(item));
      // No update is sent while the reader has not received the last one. The reader then only misses intermediate
      // states.
      if (data !== sent && isReading) void sendProgress(data);
      timer.cancel = clock.setTimer(PROGRESS_INTERVAL_MS, sendUpdate);
    };
    stream.signal.addEventListener("abort", () => timer.cancel?.(), { once: true });
    if (!stream.signal.aborted) sendUpdate();
  }
}

/** Sends the Model's progress, unless `sent` already contains it, and then the event `end`. Then closes the stream. */
function endStream(stream: EventStream, item: ModelView, sent = ""): void {
  const data = JSON.stringify(modelProgressView(item));
  if (data !== sent) stream.send({ event: "progress", data });
  stream.send({ event: "end", data: JSON.stringify(item) });
  stream.end();
}
