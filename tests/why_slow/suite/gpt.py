# A small GPT on made-up text, character by character. Settings first, then everything in order.

import math
import os
import random
import tempfile
from contextlib import nullcontext

import torch
import torch.nn as nn
from torch.nn import functional as F

out_dir = tempfile.mkdtemp(prefix='gpt-')
eval_interval = 100
eval_iters = 5
log_interval = 10
checkpoint_interval = 200

batch_size = 8
block_size = 64
gradient_accumulation = 2
n_layer = 2
n_head = 4
n_embd = 128

learning_rate = 1e-3
min_lr = 1e-4
warmup = 50
max_iters = 2000
grad_clip = 1.0
seed = 1337

torch.manual_seed(seed)
random.seed(seed)

# data: sentences of a little grammar
subjects = ['the cat', 'a tall man', 'my sister', 'that old dog', 'nobody']
verbs = ['sees', 'likes', 'follows', 'paints', 'remembers']
objects = ['the moon', 'a red bicycle', 'the long road', 'his own shadow', 'an apple']
text = '. '.join(f'{random.choice(subjects)} {random.choice(verbs)} {random.choice(objects)}'
                 for _ in range(20000))
chars = sorted(set(text))
codes = {c: i for i, c in enumerate(chars)}
data = torch.tensor([codes[c] for c in text])
split = int(0.9 * len(data))
splits = {'train': data[:split], 'val': data[split:]}
window = torch.arange(block_size)


def get_batch(name):
    source = splits[name]
    start = torch.randint(len(source) - block_size - 1, (batch_size, 1))
    at = start + window
    return source[at], source[at + 1]


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(n_embd, 3 * n_embd)
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, n_head, C // n_head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = SelfAttention()
        self.ln_2 = nn.LayerNorm(n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(len(chars), n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.blocks = nn.ModuleList([Block() for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, len(chars), bias=False)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(window)
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, len(chars)), targets.view(-1))


model = GPT()
decay = [p for p in model.parameters() if p.dim() >= 2]
no_decay = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW([{'params': decay, 'weight_decay': 0.1}, {'params': no_decay, 'weight_decay': 0.0}],
                              lr=learning_rate, betas=(0.9, 0.95), fused=True)
ctx = nullcontext()


def get_lr(it):
    if it < warmup:
        return learning_rate * (it + 1) / warmup
    ratio = (it - warmup) / (max_iters - warmup)
    return min_lr + 0.5 * (1 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


@torch.no_grad()
def estimate_loss():
    model.eval()
    out = {}
    for name in splits:
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            X, Y = get_batch(name)
            _, loss = model(X, Y)
            losses[k] = loss.item()
        out[name] = losses.mean()
    model.train()
    return out


for it in range(max_iters):
    lr = get_lr(it)
    for group in optimizer.param_groups:
        group['lr'] = lr
    if it % eval_interval == 0 and it > 0:
        losses = estimate_loss()
        print(f'step {it}: train loss {losses["train"]:.4f}, val loss {losses["val"]:.4f}', flush=True)
    if it % checkpoint_interval == 0 and it > 0:
        torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'it': it},
                   os.path.join(out_dir, 'ckpt.pt'))

    for micro_step in range(gradient_accumulation):
        X, Y = get_batch('train')
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / gradient_accumulation
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

    if it % log_interval == 0:
        print(f'iter {it}: loss {loss.item() * gradient_accumulation:.4f}', flush=True)
