import type { BuildView } from "../../resources/wire/builds.ts";
import type { BuildRecord } from "../../store/store.ts";

export function buildView(build: BuildRecord): BuildView {
  return {
    id: build.id,
    app: build.app,
    generation: build.generation,
    source: build.source,
    revision: build.revision,
    image: build.image,
    state: build.state,
    message: build.message,
    image_bytes: build.imageBytes,
    created_at: build.createdAt,
    started_at: build.startedAt,
    finished_at: build.finishedAt,
  };
}
