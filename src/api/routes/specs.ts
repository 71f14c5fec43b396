import { PruneAnswer, PruneBody, SpecsView } from "../../resources/wire/system.ts";
import { answers, NoQuery } from "../answers.ts";
import type { Api, ApiContext } from "../context.ts";
import { actorOf } from "../request-scope.ts";

export function specRoutes(api: Api, context: ApiContext): void {
  const { control, store } = context;

  api.get(
    "/api/specs",
    {
      config: { access: "read" },
      schema: {
        summary: "The watched folder: its files, their errors, and prunes that wait",
        tags: ["specs"],
        querystring: NoQuery,
        response: answers({ 200: SpecsView }),
      },
    },
    async () => {
      const report = control.specs();
      return {
        folder: report.folder,
        state: report.state,
        message: report.message,
        files: report.files.map((file) => ({
          file: file.file,
          state: file.state,
          content_hash: file.contentHash,
          resources: file.resources.map(({ kind, name, yielded }) => ({
            kind,
            name,
            yielded: [...yielded],
          })),
          errors: file.errors.map(({ line, column, message }) => ({ line, column, message })),
          time: file.time,
        })),
        pending_prune: report.pendingPrune.map(({ kind, name, file }) => ({ kind, name, file })),
      };
    },
  );

  api.post(
    "/api/specs/prune",
    {
      config: { access: "write" },
      schema: {
        summary: "Let the deletions that wait for a person go ahead",
        tags: ["specs"],
        body: PruneBody,
        querystring: NoQuery,
        response: answers({ 200: PruneAnswer }),
      },
    },
    async (request) => {
      const pruned = control.confirmPrune().map(({ kind, name, file }) => ({ kind, name, file }));
      const actor = actorOf(request);
      for (const { kind, name } of pruned) {
        store.audit.append({
          actor: actor.name,
          requestId: actor.requestId ?? null,
          action: "prune_confirm",
          kind,
          name,
          changes: [],
        });
      }
      return { pruned };
    },
  );
}
