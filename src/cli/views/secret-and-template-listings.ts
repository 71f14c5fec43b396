import type { SecretView, TemplateView } from "../../resources/wire/resources.ts";
import { formatAge } from "../format-time.ts";
import { createListing, type Listing } from "../output/print.ts";

export function createSecretListing(secrets: readonly SecretView[], nowMs: number): Listing {
  return createListing<SecretView>({
    rows: secrets,
    columns: [
      { header: "NAME", value: (secret) => secret.name },
      { header: "TYPE", value: (secret) => secret.type, dropOrder: 2 },
      { header: "KEYS", value: (secret) => secret.keys.join(", "), canShrink: true },
      {
        header: "AGE",
        value: (secret) => formatAge(secret.created_at, nowMs),
        isVolatile: true,
        dropOrder: 1,
      },
    ],
    wideColumns: [
      { header: "GENERATION", value: (secret) => String(secret.generation) },
      { header: "MANAGED BY", value: (secret) => secret.managed_by, canShrink: true },
    ],
    name: (secret) => `secret/${secret.name}`,
    document: { secrets, total: secrets.length },
    empty: "no secrets yet; create one with `berth secrets set NAME key=value`",
  });
}

export function createTemplateListing(templates: readonly TemplateView[]): Listing {
  return createListing<TemplateView>({
    rows: templates,
    columns: [
      { header: "ID", value: (template) => template.id },
      { header: "NAME", value: (template) => template.name, dropOrder: 2 },
      { header: "CATEGORY", value: (template) => template.category, dropOrder: 1 },
      { header: "DESCRIPTION", value: (template) => template.description, canShrink: true },
    ],
    wideColumns: [
      { header: "IMAGE", value: (template) => template.image, canShrink: true },
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
        canShrink: true,
      },
      { header: "BUILT IN", value: (template) => (template.built_in ? "yes" : "no") },
    ],
    name: (template) => `template/${template.id}`,
    document: { templates, total: templates.length },
    empty: "no templates",
  });
}
