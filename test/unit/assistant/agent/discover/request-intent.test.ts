import { describe, expect, it } from "vitest";
import { detectIntent } from "../../../../../src/assistant/agent/discover/request-intent.ts";

describe("the intent of a request", () => {
  it.each([
    "which apps are running",
    "what’s on my clipboard",
    "is the wiki healthy",
    "show me the log",
    "Could you please tell me when I meet Eva?",
    "I want to see the list of apps",
    "let me know if the build is green",
    "any news from Tom?",
    "do I have anything on this afternoon",
    "what did I delete yesterday",
  ])("is to see something: %s", (request) => {
    expect(detectIntent(request)).toBe("look");
  });

  it.each([
    "delete the note",
    "please remove the old app",
    "can you delete the note?",
    "would you mind, restart the blog",
    "I want to delete the app",
    "don't bother me for an hour",
    "do not disturb me",
    "tell the team that lunch is off",
    "let the guests in",
    "",
  ])("is to change something: %s", (request) => {
    expect(detectIntent(request)).toBe("act");
  });

  it.each(["my eyes hurt", "it is dark in here", "I'm freezing"])(
    "cannot be determined: %s",
    (request) => {
      expect(detectIntent(request)).toBe("unknown");
    },
  );

  it("is found in bounded time, whatever the request", () => {
    const request = "please can you just ".repeat(50_000);
    expect(detectIntent(`${request}show`)).toBeDefined();
  });
});
