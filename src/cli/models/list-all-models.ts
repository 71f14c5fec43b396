import type { Client } from "../../client/rest/client.ts";
import type { ModelView } from "../../resources/wire/models.ts";

/** Fetches all pages of the list of models. */
export async function listAllModels(client: Client): Promise<readonly ModelView[]> {
  const models: ModelView[] = [];
  for (;;) {
    const page = await client.models.list({ limit: 1000, offset: models.length });
    models.push(...page.models);
    if (page.models.length === 0 || models.length >= page.total) return models;
  }
}
