import { isObject } from "../../../base/json.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { AnswerEvent, GenerateRequest, Guide } from "../../inference/service-port.ts";

/** The number of attempts for an answer with a schema. The API documents that Berth tries a second time. */
const ATTEMPTS = 2;
/**
 * The second attempt for an answer adds this number to the seed. The 32-bit golden ratio keeps the two seeds far apart.
 */
const SEED_STEP = 0x9e3779b9;

/**
 * Requests an answer and yields its events. If the answer must be JSON and is not streamed, each choice is held back
 * until it has proved to be JSON, and only the choices that are not JSON are requested a second time. A streamed answer
 * that is not JSON ends with `invalid_output`. Only the syntax is checked here, because providers enforce the schema.
 */
export function generateGuided(
  request: GenerateRequest,
  ask: (request: GenerateRequest) => AsyncGenerator<AnswerEvent, void, void>,
): AsyncGenerator<AnswerEvent, void, void> {
  return request.guide.kind === "none" ? ask(request) : generateChecked(request, ask);
}

async function* generateChecked(
  request: GenerateRequest,
  ask: (request: GenerateRequest) => AsyncGenerator<AnswerEvent, void, void>,
): AsyncGenerator<AnswerEvent, void, void> {
  const { guide, isStreamed } = request;
  let open = Array.from({ length: request.prompts.length * request.n }, (_, choice) => choice);
  for (let tried = 0; tried < ATTEMPTS; tried++) {
    const asked = open;
    const failed: number[] = [];
    const held = asked.map((): ChoiceTranscript => ({ events: [], text: "", calledTools: false }));
    let problem = "";
    for await (const event of ask(tried === 0 ? request : selectChoices(request, asked, tried))) {
      if (event.type === "accepted" || event.type === "started") {
        // The events `accepted` and `started` are yielded only in the first attempt, because they describe the request
        // and its prompt, which both attempts share.
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

/** The output of one choice that has been received so far. */
interface ChoiceTranscript {
  readonly events: AnswerEvent[];
  text: string;
  calledTools: boolean;
}

/**
 * Returns a request that asks only for these choices of the answer, given by their indexes. The provider numbers the
 * choices of the new request from 0.
 */
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
    return "the answer is not JSON";
  }
  return guide.kind === "json_object" && !isObject(document)
    ? "the answer is not a JSON object"
    : undefined;
}

function invalidOutputError(problem: string): AssistantError {
  return new AssistantError(
    "invalid_output",
    `the model's answer does not fit the schema: ${problem}. ` +
      "Try again, leave out stop if it is set, or use a model that follows schemas",
  );
}
