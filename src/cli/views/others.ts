import type { SecretView, TemplateView } from "../../resources/wire/resources.ts";
import { formatAge } from "../age.ts";
import { type Listing, listing } from "../output/print.ts";

export function secretListing(secrets: readonly SecretView[], nowMs: number): Listing {
  return listing<SecretView>({
    rows: secrets,
    columns: [
      { header: "NAME", value: (secret) => secret.name },
      { header: "TYPE", value: (secret) => secret.type },
      { header: "KEYS", value: (secret) => secret.keys.join(", "), shrinks: true },
      { header: "AGE", value: (secret) => formatAge(secret.created_at, nowMs), volatile: true },
    ],
    wideColumns: [
      { header: "GENERATION", value: (secret) => String(secret.generation) },
      { header: "MANAGED BY", value: (secret) => secret.managed_by, shrinks: true },
    ],
    name: (secret) => `secret/${secret.name}`,
    document: { secrets, total: secrets.length },
    empty: "no secrets yet; make one with `berth secrets set NAME key=value`",
  });
}

export function templateListing(templates: readonly TemplateView[]): Listing {
  return listing<TemplateView>({
    rows: templates,
    columns: [
      { header: "ID", value: (template) => template.id },
      { header: "NAME", value: (template) => template.name },
      { header: "CATEGORY", value: (template) => template.category },
      { header: "DESCRIPTION", value: (template) => template.description, shrinks: true },
    ],
    wideColumns: [
      { header: "IMAGE", value: (template) => template.image, shrinks: true },
      {
        header: "PORT",
        value: (template) => (template.port === null ? "" : String(template.port)),
      },
      {
        header: "PARAMETERS",
        value: (template) =>
          template.parameters
            .map((parameter) => parameter.name + (parameter.required ? "*" : ""))
            .join(", "),
        shrinks: true,
      },
      { header: "BUILT IN", value: (template) => (template.built_in ? "yes" : "no") },
    ],
    name: (template) => `template/${template.id}`,
    document: { templates, total: templates.length },
    empty: "no templates",
  });
}
