import type { ServedModel } from "../../client/rest/chat.ts";
import type { Cli } from "../cli.ts";
import { askDecision } from "../companion/ask-decision.ts";
import { canAsk } from "../prompt.ts";
import { askInTalk } from "./ask-in-talk.ts";
import { LineReader } from "./line-reader.ts";
import { askOnce } from "./one-shot.ts";
import type { Person } from "./overlay/answer-question.ts";
import { ChatSession } from "./session.ts";
import type { ChatSettings } from "./settings.ts";
import type { Talk } from "./talk.ts";

export interface TalkToRun {
  /** `person`: whoever can be asked while an answer comes. */
  readonly open: (person: Person) => Talk;
  readonly choose: (talk: Talk) => Promise<ServedModel>;
  /** One message; undefined: a person types. */
  readonly message: string | undefined;
  readonly settings: ChatSettings;
  readonly isJson: boolean;
}

/** One message and its answer, or a talk at the terminal. */
export async function runTalk(cli: Cli, options: TalkToRun): Promise<void> {
  const { message, settings, isJson } = options;
  if (message !== undefined) {
    const talk = options.open(personAt(cli));
    return askOnce(cli, talk, await options.choose(talk), message, settings, isJson);
  }
  let opened: LineReader | undefined;
  const talk = options.open(async (question, signal) =>
    opened === undefined ? "interrupted" : askInTalk(cli, opened, question, signal),
  );
  const model = await options.choose(talk);
  using reader = new LineReader({
    input: cli.io.input,
    write: (shown) => cli.io.writeError(shown),
    columns: () => cli.io.columns,
  });
  opened = reader;
  await new ChatSession({ cli, talk, reader, settings, model }).run();
}

/** Whoever sits at the terminal that nobody else reads from; undefined where nobody does. */
export function personAt(cli: Cli): Person {
  return canAsk(cli) ? (question, signal) => askDecision(cli, question, signal) : undefined;
}
