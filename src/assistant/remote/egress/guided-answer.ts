import { AssistantError } from "../../assistant-error.ts";
import type { AnswerEvent, GenerateRequest, Guide } from "../../inference/service-port.ts";

/** The contract's one re-sample of a guided answer. */
const ATTEMPTS = 2;
/** Keeps the second attempt's random numbers apart from the first's: the 32-bit golden ratio. */
const SEED_STEP = 0x9e3779b9;

/**
 * The events of a request, whose answers are held back until they have been found to be JSON where the port says
 * so: those that are not are asked for once more, alone. A streamed one ends with `invalid_output` in their place.
 * Whether a document fits its schema is the provider's to keep: here it is seen that there is one.
 */
export async function* generateGuided(
  request: GenerateRequest,
  ask: (request: GenerateRequest) => AsyncIterable<AnswerEvent>,
): AsyncGenerator<AnswerEvent, void, void> {
  const { guide, isStreamed } = request;
  if (guide.kind === "none") {
    yield* ask(request);
    return;
  }
  let open = Array.from({ length: request.prompts.length * request.n }, (_, choice) => choice);
  for (let tried = 0; tried < ATTEMPTS; tried++) {
    const asked = open;
    const failed: number[] = [];
    const held = asked.map((): ChoiceTranscript => ({ events: [], text: "", calledTools: false }));
    let problem = "";
    for await (const event of ask(tried === 0 ? request : selectChoices(request, asked, tried))) {
      if (event.type === "accepted" || event.type === "started") {
        // A second attempt reads the same prompt.
        if (tried === 0) yield event;
        continue;
      }
      const [choice, said] = [asked[event.choice], held[event.choice]];
      if (choice === undefined || !said) continue;
      if (event.type === "text") said.text += event.text;
      if (event.type === "tool_call") said.calledTools = true;
      const isWhole = event.type === "end" && event.reason !== "length" && !said.calledTools;
      const found = isWhole ? findProblem(said.text, guide) : undefined;
      if (found !== undefined) {
        if (isStreamed) throw invalidOutputError(found);
        problem = found;
        failed.push(choice);
      } else if (isStreamed) yield event;
      else {
        said.events.push({ ...event, choice });
        if (event.type === "end") yield* said.events.splice(0);
      }
    }
    if (failed.length === 0) return;
    if (tried + 1 === ATTEMPTS) throw invalidOutputError(problem);
    open = failed;
  }
}

/** What one choice has said. */
interface ChoiceTranscript {
  readonly events: AnswerEvent[];
  text: string;
  calledTools: boolean;
}

/** The request for these of its choices, which are numbered anew. */
function selectChoices(
  request: GenerateRequest,
  choices: readonly number[],
  tried: number,
): GenerateRequest {
  const { seed } = request.sampling;
  const moved = seed === undefined ? undefined : (seed + Math.imul(tried, SEED_STEP)) >>> 0;
  const sampling = { ...request.sampling, seed: moved };
  const [first] = request.prompts;
  if (request.prompts.length === 1 && first) return { ...request, sampling, n: choices.length };
  const prompts = choices.flatMap(
    (choice) => request.prompts[Math.floor(choice / request.n)] ?? [],
  );
  return { ...request, sampling, prompts, n: 1 };
}

function findProblem(text: string, guide: Guide): string | undefined {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    return "it is not JSON";
  }
  const isObject = typeof document === "object" && document !== null && !Array.isArray(document);
  return guide.kind === "json_object" && !isObject ? "it is no JSON object" : undefined;
}

function invalidOutputError(problem: string): AssistantError {
  return new AssistantError(
    "invalid_output",
    `the model's answer does not fit the schema: ${problem}. ` +
      "Ask again, leave stop out if there is one, or use a model that follows schemas",
  );
}
