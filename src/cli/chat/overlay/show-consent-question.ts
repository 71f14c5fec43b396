import type { ConsentQuestion, SourceRow } from "../../../client/bus/overlay-wire.ts";
import { formatLabelled } from "../../companion/show-confirmation-spec.ts";
import { sanitizeLine } from "../../companion/untrusted-text.ts";
import { formatTime } from "../../format-time.ts";
import type { ViewOptions } from "../../output/format-sections.ts";

const WIDTH_STANDARD = 80;

/** Returns the text of a consent question: which data would be sent, and to whom. All values are untrusted. */
export function showConsentQuestion(question: ConsentQuestion, style: ViewOptions): string {
  const { provider, address, model, scopes, sources, calls, expiresAt } = question;
  const width = style.width ?? WIDTH_STANDARD;
  const rows: (readonly [string, string])[] = [
    ["To", `${provider}${address === "" ? "" : ` (${address})`}, model ${model}`],
    ["Not allowed yet", scopes.join(", ")],
    ...sources.map((source, index) => [index === 0 ? "With" : "", formatSource(source)] as const),
    ...calls.map(
      ({ appId, tool }, index) => [index === 0 ? "Results of" : "", `${appId} ${tool}`] as const,
    ),
    ["Until", formatTime(expiresAt, style.nowMs)],
  ];
  const margin = Math.max(...rows.map(([name]) => name.length)) + 5;
  return [
    style.colours.bold("This will be sent to a provider:"),
    ...rows
      .filter(([, text]) => text !== "")
      .map(([name, text]) =>
        formatLabelled(
          `  ${name === "" ? "" : `${name}:`}`.padEnd(margin),
          sanitizeLine(text),
          width,
        ),
      ),
  ].join("\n");
}

/** Formats, on one line, a source whose text would be sent to the provider. */
export function formatSource({ title, uri, source }: SourceRow): string {
  const name = sanitizeLine(title === "" ? uri : title);
  return title === "" || uri === ""
    ? `${name} (${sanitizeLine(source)})`
    : `${name} (${sanitizeLine(source)}) ${sanitizeLine(uri)}`;
}
