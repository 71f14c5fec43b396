export interface ChatQuestion {
  readonly id: string;
  readonly messages: readonly {
    readonly role: "system" | "user" | "assistant";
    readonly content: string;
  }[];
  readonly stop?: readonly string[];
}

export interface TextQuestion {
  readonly id: string;
  readonly prompt: string;
  readonly stop?: readonly string[];
}

/** The token limit of every answer. */
export const ANSWER_TOKENS_MAX = 24;

/** A text of about 70 tokens. */
const HARBOUR =
  "The ferry leaves the harbour at seven in the morning and returns at nine in the evening. In winter it sails only on Mondays and Fridays, because the sea is rough and few people travel. A ticket costs four coins for adults and two coins for children, and dogs travel free if they stay on the deck.";

/** A second text, so that a prompt with both has more than 128 tokens. */
const LIBRARY =
  "The library in the old mill has three floors. Maps and atlases are on the ground floor, novels on the first floor, and music on the second floor. Readers may borrow five books for three weeks. Whoever brings a book back late pays one coin for each day, and the money buys new shelves.";

const ask = (id: string, content: string): ChatQuestion => ({
  id,
  messages: [{ role: "user", content }],
});

const askWith = (id: string, system: string, content: string): ChatQuestion => ({
  id,
  messages: [
    { role: "system", content: system },
    { role: "user", content },
  ],
});

/** Short and long questions, with and without a system message, in one turn and in several. */
export const chatQuestions: readonly ChatQuestion[] = [
  ask("capital", "What is the capital of France?"),
  ask("river", "Name a river."),
  ask("colours", "List three colours."),
  ask("sum", "How much is two plus two?"),
  ask("seasons", "Which season comes after winter?"),
  ask("opposite", "What is the opposite of hot?"),
  ask("poem", "Write one line of a poem about the sea."),
  ask("json", 'Repeat exactly: {"a": [1, 2.5e-3, null]}'),
  ask("emoji", "Repeat exactly: 日本語 🙂 wörld"),
  ask("code", "Write a Python function that adds two numbers."),
  { ...ask("stop-at-comma", "List five fruits, separated by commas."), stop: [","] },
  { ...ask("stop-at-line", "Count from one to five, one number on each line."), stop: ["\n"] },
  askWith("pirate", "You are a pirate. Answer in one sentence.", "Where do you live?"),
  askWith("brief", "Answer with one word.", "What do bees make?"),
  {
    id: "turns",
    messages: [
      { role: "user", content: "My name is Ada." },
      { role: "assistant", content: "Hello Ada! How can I help you today?" },
      { role: "user", content: "What is my name?" },
    ],
  },
  ask("harbour-price", `${HARBOUR}\n\nWhat does a ticket for a child cost?`),
  ask("harbour-winter", `${HARBOUR}\n\nOn which days does the ferry sail in winter?`),
  askWith("library-floor", `Answer from this text. ${LIBRARY}`, "On which floor is the music?"),
  ask("both-weeks", `${HARBOUR}\n\n${LIBRARY}\n\nFor how long may readers keep a book?`),
  askWith("both-dogs", `Answer from these texts. ${LIBRARY} ${HARBOUR}`, "Do dogs need a ticket?"),
];

/** Texts for a model without a chat template to continue. */
export const textQuestions: readonly TextQuestion[] = [
  { id: "capital", prompt: "The capital of France is" },
  { id: "river", prompt: "The Nile is the longest river in" },
  { id: "fox", prompt: "The quick brown fox jumps over the" },
  { id: "sum", prompt: "7 + 5 = 12\n8 + 6 = 14\n9 + 7 =" },
  { id: "seasons", prompt: "The four seasons are spring, summer," },
  { id: "opposites", prompt: "hot: cold\nbig: small\nfast: slow\nlight:" },
  { id: "story", prompt: "Once upon a time there was a small house at the edge of a forest." },
  { id: "json", prompt: '[{"id": 1, "name": "one"}, {"id": 2, "name": "two"}, {"id": 3,' },
  { id: "japanese", prompt: "日本の首都は" },
  { id: "german", prompt: "Guten Morgen! Wie geht es" },
  { id: "numerals", prompt: "一、二、三、四、五、六、七、" },
  { id: "code", prompt: "def add(a, b):\n    return a + b\n\ndef multiply(a, b):\n" },
  { id: "html", prompt: "<ul>\n  <li>one</li>\n  <li>two</li>\n" },
  { id: "stop-at-comma", prompt: "apples, pears, plums and cherries: apples", stop: [","] },
  { id: "stop-at-line", prompt: "1. one\n2. two\n3.", stop: ["\n"] },
  { id: "harbour", prompt: `${HARBOUR} A ticket for a child costs` },
  { id: "library", prompt: `${LIBRARY} A reader who wants to hear music goes to the` },
  { id: "library-question", prompt: `${LIBRARY}\n\nQuestion: Where are the maps?\nAnswer:` },
  { id: "both", prompt: `${HARBOUR}\n\n${LIBRARY}\n\nThe ferry leaves the harbour at` },
  { id: "both-question", prompt: `${LIBRARY}\n\n${HARBOUR}\n\nQuestion: Who pays?\nAnswer:` },
];

/** Texts for an embedder: sentences, single words, code, other scripts, and one of more than 64 tokens. */
export const embeddedTexts: readonly string[] = [
  "The cat sits on the mat.",
  "A feline rests on a rug.",
  "Stock markets fell sharply on Tuesday.",
  "How do I reset my password?",
  "I forgot my login and cannot sign in.",
  "boiler",
  "Heating: check the pressure once a month",
  "SELECT name FROM users WHERE id = 7;",
  'const sum = (a, b) => a + b; // "adds"',
  "Das Wetter ist heute schön.",
  "Le chat est sur la table.",
  "Привет, как дела?",
  "日本語のテキスト",
  "UPPER CASE and lower case",
  "café naïve résumé",
  "3.14159 2,718 -1e10",
  "🙂 🚢",
  "to be or not to be, that is the question",
  HARBOUR,
  LIBRARY,
];

/** Prompts that differ from all questions from their first word on, for requests before and between them. */
export const unrelatedTexts: readonly string[] = [
  `Minutes of the meeting. ${LIBRARY} ${HARBOUR}`,
  `Dear neighbours, ${HARBOUR} ${HARBOUR} ${LIBRARY}`,
  "Reminder: water the plants.",
  `Once more, slowly: ${LIBRARY}`,
];
