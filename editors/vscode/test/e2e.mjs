// Drives a real VS Code (code-server) in a real browser: install, open, see, fix, save; a run verified on a phantom T4;
// a notebook; another target; a Python without t4lint.
//
//   CODE_SERVER=.../out/node/entry.js PYTHON=.../bin/python node test/e2e.mjs [FOLDER_FOR_SCREENSHOTS]
//
// PYTHON is an interpreter with t4lint[lsp] and torch. Exits with 0 when every step was seen.

import { spawn, execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = path.dirname(fileURLToPath(import.meta.url));
const vsix = path.join(here, "..", "t4lint.vsix");
const server = process.env.CODE_SERVER;
const python = process.env.PYTHON ?? "python3";
const browserPath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const shots = process.argv[2];
const PATIENCE = Number(process.env.PATIENCE ?? 90_000); // milliseconds
const SIZE = { width: 1400, height: 850 };

const SCRIPT = `import torch
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(64, 10).to(device)
optimizer = torch.optim.AdamW(model.parameters())
data = TensorDataset(torch.randn(512, 64), torch.randint(10, (512,)))
loader = DataLoader(data, batch_size=32, pin_memory=False)

for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
`;

/** A program whose findings get a verdict of each kind (examples/verify_me.py of the repository). */
const EXAMPLE = path.join(here, "verify_me.py");

const work = mkdtempSync(path.join(tmpdir(), "t4lint-e2e-"));
const project = path.join(work, "project");
const port = 20_000 + (process.pid % 10_000);
const settingsFile = path.join(work, "user", "User", "settings.json");
const common = ["--extensions-dir", path.join(work, "extensions"), "--user-data-dir", path.join(work, "user")];

function configure(interpreter) {
  const settings = {
    "t4lint.interpreter": interpreter,
    "workbench.startupEditor": "none",
    "telemetry.telemetryLevel": "off",
    "files.autoSave": "off",
    "editor.minimap.enabled": false,
    "window.commandCenter": false,
    "security.workspace.trust.enabled": false,
  };
  writeFileSync(settingsFile, JSON.stringify(settings));
}

function prepare() {
  mkdirSync(path.join(work, "user", "User"), { recursive: true });
  mkdirSync(project);
  writeFileSync(path.join(project, "train.py"), SCRIPT);
  const [head, loop] = SCRIPT.split("\nfor ");
  const cell = (source) => ({ cell_type: "code", execution_count: null, metadata: {}, outputs: [], source });
  const cells = [cell(head.split(/(?<=\n)/)), cell(`for ${loop}`.split(/(?<=\n)/))];
  const metadata = { language_info: { name: "python" } };
  writeFileSync(path.join(project, "lesson.ipynb"), JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }));
  copyFileSync(EXAMPLE, path.join(project, "verify_me.py"));
  configure(python);
  execFileSync(process.execPath, [server, ...common, "--install-extension", vsix], { stdio: "inherit" });
}

function start() {
  const flags = ["--auth", "none", "--bind-addr", `127.0.0.1:${port}`, "--disable-telemetry", "--disable-update-check"];
  return spawn(process.execPath, [server, ...common, ...flags, "--disable-workspace-trust", project], { stdio: "ignore" });
}

async function reachable() {
  for (const started = Date.now(); Date.now() - started < PATIENCE; ) {
    try {
      await fetch(`http://127.0.0.1:${port}/healthz`);
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
  }
  throw new Error("code-server did not start");
}

async function shot(page, name) {
  if (shots) {
    mkdirSync(shots, { recursive: true });
    await page.screenshot({ path: path.join(shots, `${name}.png`) });
  }
}

async function command(page, title) {
  await page.keyboard.press("F1");
  await page.locator(".quick-input-widget input").fill(`>${title}`);
  await page.locator(".quick-input-list .monaco-list-row").filter({ hasText: title }).first().click();
}

async function open(page, name) {
  await page.locator(".explorer-folders-view .monaco-list-row").filter({ hasText: name }).dblclick();
}

/** What the extension said, for who has to find out why a step failed. */
function printLogs() {
  const logs = path.join(work, "user", "logs");
  for (const name of readdirSync(logs, { recursive: true })) {
    if (/t4lint\.log$|\d-t4lint.*\.log$/.test(name)) {
      console.error(`--- ${name}\n${readFileSync(path.join(logs, name), "utf8").slice(-8000)}`);
    }
  }
}

function step(text) {
  console.log(`ok  ${text}`);
}

async function findingInScript(page) {
  await open(page, "train.py");
  await page.locator(".squiggly-warning").first().waitFor({ timeout: PATIENCE });
  step("a squiggle in train.py");
  await command(page, "View: Toggle Problems");
  const row = page.locator(".markers-panel .monaco-list-row").filter({ hasText: "pin-memory-disabled" });
  await row.waitFor({ timeout: PATIENCE });
  step("the finding in the Problems panel");
  await shot(page, "problems");
}

async function quickFix(page) {
  const action = page.locator(".action-widget .monaco-list-row").filter({ hasText: "Pin the batches" });
  await page.locator(".view-line span").filter({ hasText: /^False$/ }).first().dblclick();
  for (let tries = 0; tries < 5 && !(await action.isVisible()); tries += 1) {
    await page.keyboard.press("Control+.");
    await action.waitFor({ timeout: PATIENCE / 5 }).catch(() => undefined);
  }
  await shot(page, "quick-fix");
  await page.keyboard.press("Enter"); // the preferred action has the focus
  await page.locator(".markers-panel .monaco-list-row").filter({ hasText: "pin-memory-disabled" }).waitFor({
    state: "detached",
    timeout: PATIENCE,
  });
  await page.keyboard.press("Control+s");
  const saved = () => readFileSync(path.join(project, "train.py"), "utf8");
  for (const started = Date.now(); !saved().includes("pin_memory=True"); ) {
    if (Date.now() - started > PATIENCE) {
      throw new Error("the fix was not saved");
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  if (saved() !== SCRIPT.replace("pin_memory=False", "pin_memory=True")) {
    throw new Error(`the fix changed more than the argument:\n${saved()}`);
  }
  step("the quick fix, in the saved file, and nothing else changed");
}

async function hover(page) {
  await page.locator(".view-line span").filter({ hasText: /^pin_memory$/ }).first().hover();
  const text = page.locator(".monaco-hover-content").filter({ hasText: "torch.utils.data.DataLoader" }).first();
  await text.waitFor({ timeout: PATIENCE });
  step("the value of a setting on hover");
  await shot(page, "hover");
  await page.keyboard.press("Escape");
}

async function verified(page) {
  await page.setViewportSize({ width: 2100, height: 1000 });
  await command(page, "View: Toggle Panel Visibility");
  await open(page, "verify_me.py");
  await page.locator(".squiggly-warning").first().waitFor({ timeout: PATIENCE });
  await command(page, "View: Toggle Primary Side Bar Visibility");
  await command(page, "t4lint: Verify this script on a phantom T4");
  const dialog = page.locator(".monaco-dialog-box");
  await dialog.filter({ hasText: "t4lint verify --device phantom -- python verify_me.py" }).waitFor({ timeout: PATIENCE });
  await dialog.locator("button, .monaco-button").filter({ hasText: "Run it" }).click();
  await page.locator(".tab").filter({ hasText: "t4lint: verdicts" }).waitFor({ timeout: PATIENCE });
  const outer = page.frameLocator("iframe.webview.ready").first();
  const table = outer.frameLocator("iframe#active-frame").locator("table");
  await table.waitFor({ timeout: PATIENCE });
  const rows = (await table.innerText()).split("\n").map((row) => row.split("\t")[0]);
  for (const verdict of ["confirmed", "refuted", "not exercised"]) {
    if (!rows.includes(verdict)) {
      throw new Error(`no verdict "${verdict}" among ${rows}`);
    }
  }
  step(`verdicts of a run on a phantom T4: ${await table.locator("tr").nth(1).innerText()}`.replace(/\s+/g, " "));
  await page.waitForFunction(besideALine, "confirmed on a phantom", { timeout: PATIENCE });
  step("a verdict beside the line that it is about");
  await shot(page, "verdicts");
  await page.setViewportSize(SIZE);
  await command(page, "View: Toggle Primary Side Bar Visibility");
}

/** Runs in the browser: texts beside lines are in style sheets only. */
function besideALine(text) {
  const spans = [...document.querySelectorAll(".view-line span")];
  return spans.some((span) => getComputedStyle(span, "::after").content.includes(text));
}

async function target(page) {
  await open(page, "train.py");
  await page.locator(".statusbar-item").filter({ hasText: /^\s*t4\s*$/ }).click();
  await page.locator(".quick-input-widget input").fill("l4");
  await page.locator(".quick-input-list .monaco-list-row").filter({ hasText: /^l4/ }).first().click();
  await page.locator(".statusbar-item").filter({ hasText: /^\s*l4\s*$/ }).waitFor({ timeout: PATIENCE });
  await command(page, "View: Toggle Problems");
  const row = page.locator(".markers-panel .monaco-list-row").filter({ hasText: "to the L4" });
  await row.first().waitFor({ timeout: PATIENCE });
  await page.locator(".codelens-decoration").filter({ hasText: "phantom L4" }).first().waitFor({ timeout: PATIENCE });
  step("another target from the status bar, and what is said for it");
}

/** Settings that change while the editor runs; nothing is installed before a person says so. */
async function missing(page) {
  const bare = path.join(work, "bare");
  execFileSync(python, ["-m", "venv", "--without-pip", bare]);
  const workspaceSettings = path.join(project, ".vscode", "settings.json"); // the target picker has made it
  const settings = JSON.parse(readFileSync(workspaceSettings, "utf8"));
  settings["t4lint.interpreter"] = path.join(bare, "bin", "python");
  writeFileSync(workspaceSettings, JSON.stringify(settings));
  const offer = page.locator(".notification-list-item").filter({ hasText: "t4lint is not installed in" });
  await offer.waitFor({ timeout: PATIENCE });
  await offer.locator(".monaco-button").filter({ hasText: /^Install$/ }).waitFor({ timeout: PATIENCE });
  if (readdirSync(path.join(bare, "bin")).some((name) => name.startsWith("t4lint"))) {
    throw new Error("t4lint was installed without a word");
  }
  step("a Python without t4lint: an offer to install it");
}

async function notebook(page) {
  await open(page, "lesson.ipynb");
  await page.locator(".notebook-editor .squiggly-warning").first().waitFor({ timeout: PATIENCE });
  step("a squiggle in a cell of a notebook");
  await shot(page, "notebook");
}

async function main() {
  prepare();
  const child = start();
  let browser;
  try {
    await reachable();
    browser = await chromium.launch({
      executablePath: browserPath,
      args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"],
    });
    const page = await browser.newPage({ viewport: SIZE });
    page.setDefaultTimeout(PATIENCE);
    await page.goto(`http://127.0.0.1:${port}/?folder=${encodeURIComponent(project)}`);
    try {
      await findingInScript(page);
      await quickFix(page);
      await hover(page);
      await verified(page);
      await notebook(page);
      await target(page);
      await missing(page);
    } catch (error) {
      await shot(page, "failed");
      printLogs();
      throw error;
    }
    console.log("done");
  } finally {
    await browser?.close();
    child.kill();
    rmSync(work, { recursive: true, force: true });
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
