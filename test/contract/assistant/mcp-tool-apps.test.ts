import { mcpToolAppsHarness } from "../../support/mcp-tool-apps.ts";
import { toolAppsContract } from "./tool-apps-contract.ts";

toolAppsContract("apps of MCP's 2026 era", () => mcpToolAppsHarness("modern"));
toolAppsContract("apps of MCP's older era", () => mcpToolAppsHarness("legacy"));
