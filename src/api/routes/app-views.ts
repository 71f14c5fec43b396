import { PlanView, RevisionList } from "../../resources/wire/apps.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { requireApp } from "../app-writes.ts";
import { createRequestSignal } from "../request-parameters.ts";
import { NameParams, NoQuery, responses } from "../route-schemas.ts";
import { revisionView } from "../views/app.ts";
import { planView } from "../views/plans.ts";

export function appViewRoutes(api: Api, context: ApiContext): void {
  const { store, control } = context;

  api.get(
    "/api/apps/:name/revisions",
    {
      config: { access: "read" },
      schema: {
        summary: "List the kept revisions of an app, newest first",
        tags: ["apps"],
        params: NameParams,
        querystring: NoQuery,
        response: responses({ 200: RevisionList }),
      },
    },
    async (request) => {
      const app = requireApp(context, request.params.name);
      const attempted = app.status?.revisions.attempted ?? null;
      const revisions = store.revisions.list(app.metadata.name).map((revision) => {
        const build =
          revision.image === null ? undefined : store.builds.findByImage(revision.image);
        return revisionView(revision, attempted, build);
      });
      return { revisions, total: revisions.length };
    },
  );

  api.get(
    "/api/apps/:name/plan",
    {
      config: { access: "read" },
      schema: {
        summary: "Plan the next reconcile of an app",
        tags: ["apps"],
        params: NameParams,
        querystring: NoQuery,
        response: responses({ 200: PlanView }),
      },
    },
    async (request, reply) => {
      const app = requireApp(context, request.params.name);
      const signal = createRequestSignal(reply, context.closing);
      return planView(await control.planApp(app.metadata.name, undefined, signal));
    },
  );
}
