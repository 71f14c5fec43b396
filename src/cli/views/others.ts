import { formatBytes } from "../../base/units.ts";
import type { ModelView } from "../../resources/wire/models.ts";
import type { SecretView, TemplateView } from "../../resources/wire/resources.ts";
import { formatAge } from "../output/age.ts";
import { type Colors, colourOfStatus } from "../output/colours.ts";
import { type Listing, listing } from "../output/print.ts";

export function modelListing(models: readonly ModelView[], colours: Colors): Listing {
  return listing<ModelView>({
    rows: models,
    columns: [
      { header: "NAME", value: (model) => model.name },
      { header: "SOURCE", value: (model) => model.id, shrinks: true },
      {
        header: "STATUS",
        value: (model) =>
          model.status === "downloading"
            ? `downloading ${Math.floor(model.progress * 100)}%`
            : model.status,
        colour: (text, model) => colourOfStatus(colours, model.status)(text),
      },
      {
        header: "SIZE",
        value: (model) => (model.size_bytes === null ? "" : formatBytes(model.size_bytes)),
      },
      { header: "QUANTIZATION", value: (model) => model.quantization ?? "" },
    ],
    wideColumns: [
      {
        header: "CONTEXT",
        value: (model) => (model.context_length === null ? "" : String(model.context_length)),
      },
      { header: "FILE", value: (model) => model.file ?? "", shrinks: true },
      { header: "SHA256", value: (model) => model.sha256?.slice(0, 12) ?? "" },
      { header: "ERROR", value: (model) => model.error ?? "", shrinks: true },
    ],
    name: (model) => `model/${model.name}`,
    document: { models, total: models.length },
    empty: "no models yet; declare one in a file with `kind: Model`, see docs/kinds/Model.md",
  });
}

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
