import { Type } from "typebox";
import type { Resource } from "../../resources/resource.ts";
import { ModelProgressView, type ModelView } from "../../resources/wire/models.ts";
import { closed } from "../../resources/wire/schema.ts";
import { answers, NoQuery, untyped } from "../answers.ts";
import type { Api, ApiContext } from "../context.ts";
import { EventStream, type StreamSlots } from "../event-stream.ts";
import { findKnownModel } from "../models/find-model.ts";
import { itemOf } from "../models/known-models.ts";
import { isSettled } from "../models/wait.ts";
import { catalogModelView, modelProgressView, ownModelView } from "../views/models.ts";

/** Four times a second is as often as an eye can use. */
const TICK_MS = 250;

const IdParams = Type.Object({ id: Type.String() }, closed);

/** How far a model is, as it happens. */
export function llmProgressRoutes(api: Api, context: ApiContext, slots: StreamSlots): void {
  const { store, clock } = context;

  api.get(
    "/api/llm/models/:id/progress",
    {
      config: { access: "read", isStream: true },
      schema: {
        summary: "How far a model is, until nothing more happens to it",
        description:
          "Server-sent events: progress, at most four a second, when something has changed; then end with the model, once it is ready, running, stopped or failed. An event named error ends the stream of a model that is deleted.",
        tags: ["models"],
        params: IdParams,
        querystring: NoQuery,
        produces: ["text/event-stream"],
        response: answers({ 200: untyped(ModelProgressView) }),
      },
    },
    async (request, reply) => {
      const found = findKnownModel(context, request.params.id);
      const stream = new EventStream(clock, context.closing, slots.take());
      switch (found.type) {
        case "catalog":
          finish(stream, catalogModelView(found.entry));
          break;
        case "assistant":
          finish(stream, ownModelView(found.file));
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
    const tell = async (data: string) => {
      sent = data;
      isReading = false;
      await stream.sendSlowly({ event: "progress", data });
      isReading = true;
    };
    const look = () => {
      const model = store.get("Model", name);
      if (model?.metadata.uid !== uid) {
        const error = `model "${name}" was deleted`;
        stream.send({ event: "error", data: JSON.stringify({ error }) });
        stream.end();
        return;
      }
      const item = itemOf(context, model);
      if (isSettled(model, context.control)) {
        finish(stream, item, sent);
        return;
      }
      const data = JSON.stringify(modelProgressView(item));
      // A slow reader misses what is in between, and nothing else.
      if (data !== sent && isReading) void tell(data);
      timer.cancel = clock.setTimer(TICK_MS, look);
    };
    stream.signal.addEventListener("abort", () => timer.cancel?.(), { once: true });
    if (!stream.signal.aborted) look();
  }
}

/** The last progress, where it is not told yet, and the end. */
function finish(stream: EventStream, item: ModelView, sent = ""): void {
  const data = JSON.stringify(modelProgressView(item));
  if (data !== sent) stream.send({ event: "progress", data });
  stream.send({ event: "end", data: JSON.stringify(item) });
  stream.end();
}
