import type { ConsentQuestion, SourceRow } from "../../../client/bus/overlay-wire.ts";
import { formatTime } from "../../age.ts";
import { named } from "../../companion/show-spec.ts";
import { shownLine } from "../../companion/untrusted-text.ts";
import type { Look } from "../../output/sections.ts";

const WIDTH_STANDARD = 80;

/** What would be sent to whom, for whoever decides about it; all of it but the labels comes from others. */
export function showConsentQuestion(question: ConsentQuestion, look: Look): string {
  const { provider, address, model, scopes, sources, calls, expiresAt } = question;
  const width = look.width ?? WIDTH_STANDARD;
  const rows: (readonly [string, string])[] = [
    ["To", `${provider}${address === "" ? "" : ` (${address})`}, model ${model}`],
    ["Not allowed yet", scopes.join(", ")],
    ...sources.map((source, index) => [index === 0 ? "With" : "", sourceText(source)] as const),
    ...calls.map(
      ({ appId, tool }, index) => [index === 0 ? "Results of" : "", `${appId} ${tool}`] as const,
    ),
    ["Until", formatTime(expiresAt, look.nowMs)],
  ];
  const margin = Math.max(...rows.map(([name]) => name.length)) + 5;
  return [
    look.colours.bold("This leaves your machine:"),
    ...rows
      .filter(([, text]) => text !== "")
      .map(([name, text]) =>
        named(`  ${name === "" ? "" : `${name}:`}`.padEnd(margin), shownLine(text), width),
      ),
  ].join("\n");
}

/** A line for each source, and what of the turn's parts there was not. */
export function sourceText({ title, uri, source }: SourceRow): string {
  const name = shownLine(title === "" ? uri : title);
  return title === "" || uri === ""
    ? `${name} (${shownLine(source)})`
    : `${name} (${shownLine(source)}) ${shownLine(uri)}`;
}
