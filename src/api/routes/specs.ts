import { BerthError } from "../../base/errors.ts";
import type { SpecsGitReport } from "../../controller/port.ts";
import type { Kind } from "../../resources/kinds.ts";
import { getStack } from "../../resources/stack.ts";
import { PruneBody, PruneResponse, SpecsGitView, SpecsView } from "../../resources/wire/system.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { createRequestSignal, getActor } from "../request-parameters.ts";
import { EmptyBody, NoQuery, responses } from "../route-schemas.ts";

/**
 * The time limit of the synchronisation. It is shorter than the five minutes after which HTTP clients usually time out.
 */
const SYNC_TIMEOUT_MS = 240_000;

/** Returns the stack of a resource; null if it has none, or does not exist. */
function findStack(store: Pick<ApiContext["store"], "get">, kind: Kind, name: string) {
  const resource = store.get(kind, name);
  return resource ? (getStack(resource.metadata) ?? null) : null;
}

export function specRoutes(api: Api, context: ApiContext): void {
  const { control, store } = context;

  api.get(
    "/api/specs",
    {
      config: { access: "read" },
      schema: {
        summary: "The watched folder: its files, their errors, and pending prunes",
        tags: ["specs"],
        querystring: NoQuery,
        response: responses({ 200: SpecsView }),
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
        pending_prune: report.pendingPrune.map(({ kind, name, file }) => ({
          kind,
          name,
          stack: findStack(store, kind, name),
          file,
        })),
        git: report.git ? gitView(report.git) : null,
      };
    },
  );

  api.post(
    "/api/specs/sync",
    {
      config: { access: "write" },
      schema: {
        summary: "Synchronise the specs folder with its git repository now",
        description:
          "Responds when the synchronisation has ended; the returned state shows if it succeeded. The files are applied like every change of the watched folder.",
        tags: ["specs"],
        body: EmptyBody,
        querystring: NoQuery,
        response: responses({ 200: SpecsGitView }),
      },
    },
    async (request, reply) => {
      const gone = createRequestSignal(reply, context.closing);
      const limit = AbortSignal.timeout(SYNC_TIMEOUT_MS);
      const report = await control
        .syncSpecs(AbortSignal.any([gone, limit]))
        .catch((error: unknown) => {
          if (!limit.aborted) throw error;
          throw new BerthError("timeout", "the repository has not been read yet", {
            hint: "the synchronisation continues; berth specs shows the result",
          });
        });
      const actor = getActor(request);
      store.audit.append({
        actor: actor.name,
        requestId: actor.requestId ?? null,
        action: "specs_sync",
        kind: null,
        name: report.folder,
        changes: [],
      });
      return gitView(report);
    },
  );

  api.post(
    "/api/specs/prune",
    {
      config: { access: "write" },
      schema: {
        summary: "Confirm the pending deletions",
        tags: ["specs"],
        body: PruneBody,
        querystring: NoQuery,
        response: responses({ 200: PruneResponse }),
      },
    },
    async (request) => {
      const actor = getActor(request);
      // A caller may not delete several resources at once if it may not delete each of them.
      for (const { kind, name } of control.specs().pendingPrune)
        if (store.get(kind, name))
          store.delete(kind, name, { actor, manager: "api", force: true, dryRun: true });
      const pruned = control.confirmPrune().map(({ kind, name, file }) => ({
        kind,
        name,
        stack: findStack(store, kind, name),
        file,
      }));
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

function gitView(report: SpecsGitReport): SpecsGitView {
  const { url, ref, path, folder, commit, state, message, checkedAt, appliedAt } = report;
  const times = { checked_at: checkedAt, applied_at: appliedAt };
  return { url, ref, path, folder, commit, state, message, ...times };
}
