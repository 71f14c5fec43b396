import type { Tier } from "../port.ts";

/**
 * The intent of a request, derived from its grammatical form: `look` to see something, or `act` to do something. A
 * statement such as "my eyes hurt" is `unknown`.
 */
export type RequestIntent = "look" | "act" | "unknown";

/** The factor by which a tool's score is multiplied, by the request's intent and the tool's tier. */
export const tierFactors: Readonly<Record<RequestIntent, Readonly<Record<Tier, number>>>> = {
  look: { read: 1, write: 0.4, destructive: 0.25 },
  act: { read: 0.7, write: 1, destructive: 0.9 },
  unknown: { read: 1, write: 1, destructive: 0.9 },
};

/** Matches polite words at the beginning of a request. They do not reveal what the user wants. */
const politeStart =
  /^(?:(?:please|pls|hey|hi|hello|ok|okay|so|and|then|now|just|kindly)\b[ ,]*|(?:can|could|would|will) you(?: please)?(?: mind)? |i(?: want| need|'d like| would like) (?:you )?to |do me a favou?r and |(?:help me|let's|let us) )+/;

/** Matches the beginning of a request to see something. The beginning may follow a polite start. */
const lookStart =
  /^(?:(?:show|showing|list|find|search|look|see|check|view|display|describe|count|compare|explain|know)\b|tell (?:me|us)\b|let (?:me|us) (?:see|know|look)\b|pull up\b|give (?:me|us) (?:a|an|the) (?:list|overview|summary)\b|any(?:thing|one|body)?\b|i (?:cannot|can't) find\b|i forgot\b|(?:what|which|who|whose|when|where|why|how)(?:'s|'re|s)?\b)/;

/**
 * Matches the beginning of a question that is answered with yes or no. It is used only for requests without a polite
 * start, because the same words after a polite start do not begin such a question.
 */
const questionStart =
  /^(?:is|are|am|was|were|do|does|did|has|have|had|can|could|will|would|should)(?!n't| not)\b/;

const statementStart = /^(?:i|i'm|we|you|he|she|it|it's|they|my|our|the|that|there|this|these)\b/;

export function detectIntent(request: string): RequestIntent {
  const text = request.trim().toLowerCase().replaceAll("’", "'").replaceAll(/\s+/g, " ");
  const body = text.replace(politeStart, "");
  if (lookStart.test(body) || (body === text && questionStart.test(body))) return "look";
  return statementStart.test(body) ? "unknown" : "act";
}
